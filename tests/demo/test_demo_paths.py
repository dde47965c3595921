"""`//demo` in a configuration is a place on this machine."""

from solfa.demo.demo_paths import place_demo


def test_demo_is_replaced_only_at_the_beginning_of_a_text(tmp_path):
    values = {"a": ["//demo", "//demo/strings", "x//demo", "//demonstration"], "b": {"c": 3}}
    here = f"{tmp_path}/demo/recordings"
    assert place_demo(values, tmp_path) == {
        "a": [here, f"{here}/strings", "x//demo", "//demonstration"],
        "b": {"c": 3},
    }
