"""Two experiments, of which one fails and the other is asked for twice."""

from dora import Explorer


@Explorer
def explorer(launcher):
    launcher.bind_(solver="own")
    launcher(target=1.0)
    launcher({"target": 2.0, "fail": True})
    launcher(target=1.0)
