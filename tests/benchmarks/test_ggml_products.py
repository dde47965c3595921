"""Products beside ggml: Solfa's are right at every place, the fastest layout counts, and only few rows have a goal."""

import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from ggml_products import FORMATS, Case, Ggml, Products, Side, ratios_of, relative_error, table  # noqa: E402
from peers.ggml_library import TYPES  # noqa: E402

from solfa.nn.kernels.library import NoKernelError  # noqa: E402
from solfa.nn.kernels.structures import load_decoder  # noqa: E402

SLOW, FAST = Side("plain", [4e-4, 4e-4, 4e-4], 0.08), Side("repack", [2e-4, 3e-4, 9e-4], 0.09)
OURS = Side("kernel", [1e-4, 2e-4, 1e-4], 0.07)


@pytest.mark.parametrize("bits", FORMATS)
@pytest.mark.parametrize("num_rows", [1, 2, 32])
def test_every_place_holds_the_weights_and_gives_the_product(bits, num_rows):
    try:
        load_decoder()
    except NoKernelError as error:
        pytest.skip(str(error))
    generator = torch.Generator().manual_seed(bits)
    weight, rows = (torch.randn(num, 192, generator=generator) for num in (128, num_rows))
    _, made = Products(FORMATS[bits], weight, 3).measure(rows)
    assert made.shape == (3, num_rows, 128)
    stored = FORMATS[bits].rounded(weight)
    for one in made:
        # Rows have 16 bits beside weights of 8, and 8 beside weights of 4.
        assert relative_error(one, rows, stored) < (1e-4 if bits == 8 else 1e-2)
        assert relative_error(one, rows, weight) > (1e-3 if bits == 8 else 3e-2)


def test_the_error_is_relative_to_the_product_in_float64():
    rows, weight = torch.tensor([[3.0, 4.0]]), torch.eye(2)
    assert relative_error(torch.tensor([[3.0, 4.0]]), rows, weight) == 0
    assert relative_error(torch.tensor([[3.0, 4.5]]), rows, weight) == pytest.approx(0.1)


def test_the_fastest_layout_counts_and_the_ratio_is_the_median_of_those_of_the_rounds():
    case = Case(4, 2, OURS, [SLOW, FAST])
    assert case.ggml is FAST
    assert case.ratio == pytest.approx(2.0)  # of 2, 1.5 and 9
    assert Case(4, 2, OURS, [SLOW]).ratio == pytest.approx(4.0)


def test_a_line_of_the_table_has_both_times_and_both_errors():
    *_, line = table([Case(4, 2, OURS, [SLOW, FAST])]).splitlines()
    assert line == "| 4 | 2 | 300 | repack | 100 | 2.00x | 9.00% | 7.00% |"


def test_only_few_rows_have_a_goal():
    ratios = ratios_of(Case(8, num_rows, OURS, [SLOW]) for num_rows in (1, 2, 32))
    assert [ratio.name for ratio in ratios] == [f"products, 8 bits, {rows}" for rows in ("1 row", "2 rows", "32 rows")]
    assert [ratio.goal for ratio in ratios] == [1.0, 1.0, None]
    assert ratios_of([Case(8, 1, SLOW, [OURS])])[0].is_reached is False


def test_ggml_has_a_type_for_each_number_of_bits():
    assert TYPES.keys() == FORMATS.keys()


def test_a_folder_without_libraries_is_refused_in_one_sentence(tmp_path, capfd):
    (tmp_path / "libggml-base.so").touch()
    with pytest.raises(SystemExit, match="ended with code 1"):
        Ggml(Path(sys.executable), str(tmp_path), tmp_path, 1)
    assert "expected libggml-base and libggml-cpu, found ['libggml-base.so']" in capfd.readouterr().err
