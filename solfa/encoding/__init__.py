"""From audio to a dataset: plan purely, encode shard by shard, commit once."""
