import pickle

import numpy as np
import pytest
from scipy import sparse

from dilutron import EPOptions, Normal, Problem, SpikeSlab, ThetaMixture, solve

X = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]])
Y = np.array([1, -1, 1])


def with_value(value, place=(1, 1)):
    bad = X.copy()
    bad[place] = value
    return bad


BAD = {
    "nan": ((with_value(np.nan), Y), r"X has the value nan in row 1, column 1: impute or drop it"),
    "inf": ((with_value(np.inf, (2, 0)), Y), r"X has the value inf in row 2, column 0"),
    "minus inf": ((with_value(-np.inf, (0, 0)), Y), r"X has the value -inf in row 0, column 0"),
    "no rows": ((np.empty((0, 2)), []), r"X must have at least one row and one column, got shape \(0, 2\)"),
    "no columns": ((np.empty((3, 0)), Y), r"X must have at least one row and one column, got shape \(3, 0\)"),
    "one dimension": (([1.0, 2.0, 3.0], Y), r"X must have two dimensions \(patterns, features\), got shape \(3,\)"),
    "three dimensions": ((np.ones((3, 2, 2)), Y), r"X must have two dimensions"),
    "a number": ((5.0, Y), r"X must have two dimensions"),
    "ragged": (([[1.0, 2.0], [3.0], [1.0, 1.0]], Y), r"X must be a table of numbers, one row per pattern"),
    "strings": (([["a", "b"], ["c", "d"], ["e", "f"]], Y), r"X must be a table of numbers, one row per pattern"),
    "None": ((None, Y), r"X must"),
    "sparse": ((sparse.csr_matrix(X), Y), r"X is a sparse matrix: pass X\.toarray\(\)"),
    "complex": ((X * 1j, Y), r"X must be a table of numbers"),
    "constant column": ((np.column_stack([X, np.full(3, 7.0)]), Y), r"constant column.*'x2' \(column 2\).*Drop such"),
    "row of zeros": ((with_value(0.0) * [[1, 1], [0, 0], [1, 1]], Y), r"row 1 of X is all zeros.*drop it"),
    "too few labels": ((X, Y[:2]), r"labels must have one entry per row of X, shape \(3,\), got shape \(2,\)"),
    "labels in a column": (
        (X, Y[:, None]),
        r"labels must have one entry per row of X, shape \(3,\), got shape \(3, 1\)",
    ),
    "no labels": ((X, []), r"labels must have one entry per row of X"),
    "zero and one": ((X, [0, 1, 0]), r"labels must be -1 or \+1, got .*0.* at position 0.*2 \* labels - 1"),
    "booleans": ((X, [True, False, True]), r"labels must be -1 or \+1, got .* at position 1.*2 \* labels - 1"),
    "three classes": ((X, [1, -1, 2]), r"labels must be -1 or \+1, got .*2.* at position 2"),
    "nan label": ((X, [1.0, np.nan, -1.0]), r"labels must be -1 or \+1, got .*nan.* at position 1"),
    "word labels": ((X, ["yes", "no", "yes"]), r"labels must be the numbers -1 and \+1"),
    "one class": ((X, [1, 1, 1]), r"labels are all \+1: two classes are needed"),
    "the other class": ((X, [-1, -1, -1]), r"labels are all -1: two classes are needed"),
}


@pytest.mark.parametrize(("arrays", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_its_place_and_a_remedy(arrays, message):
    with pytest.raises(ValueError, match=message):
        Problem.from_arrays(*arrays)


def test_ragged_labels():
    with pytest.raises(ValueError, match="labels"):
        Problem.from_arrays(X, [[1], [1, -1], [1]])


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c"), ()])
def test_names_must_be_as_many_as_the_columns(names):
    with pytest.raises(ValueError, match=r"names must have one entry per column of X, 2, got"):
        Problem.from_arrays(X, Y, names=names)


def test_a_constant_column_is_named_by_its_name():
    with pytest.raises(ValueError, match="'age'"):
        Problem.from_arrays(np.column_stack([np.full(3, 7.0), X]), Y, names=["age", "a", "b"])


@pytest.mark.parametrize("size", [1.7e308, 1e160, 1e-160])
def test_numbers_that_cannot_be_squared_are_refused_with_their_column(size):
    """Finite, and no warning on the way, but their squares are not."""
    with pytest.raises(ValueError, match=r"column 1 \('x1'\).*rescale"):
        Problem.from_arrays([[1.0, size], [2.0, -size], [3.0, 0.5 * size]], Y)


def test_names_are_a_sequence_not_a_string():
    with pytest.raises(ValueError, match="names must be a sequence of strings"):
        Problem.from_arrays(X, Y, names="ab")


def test_loose_mode_lets_constants_and_one_class_through():
    constant = np.column_stack([X, np.ones(3)])
    problem = Problem.from_arrays(constant, [1, 1, 1], strict=False)
    np.testing.assert_array_equal(problem.X, constant)
    scaled = Problem.from_arrays(constant, Y, strict=False, standardize=True)
    np.testing.assert_array_equal(scaled.X[:, 2], 0.0)
    assert scaled.scale[2] == 1.0
    with pytest.raises(ValueError, match="X has the value nan"):
        Problem.from_arrays(with_value(np.nan), Y, strict=False)


def test_an_empty_row_needs_an_intercept():
    empty = Problem.from_arrays([[1.0, 2.0], [0.0, 0.0]], [1, -1], strict=False)
    assert empty.signed(intercept=True).tolist() == [[1.0, 2.0, 1.0], [0.0, 0.0, -1.0]]
    with pytest.raises(ValueError, match="row 1 of X is all zeros"):
        empty.signed()


def test_rows_that_count_twice_count_twice_in_the_mean():
    rows = np.array([[1.0, 5.0], [2.0, 3.0], [4.0, -1.0]])
    counted = Problem.from_arrays(rows, Y, standardize=True, copies=[1, 2, 3])
    repeated = Problem.from_arrays(np.repeat(rows, [1, 2, 3], axis=0), np.repeat(Y, [1, 2, 3]), standardize=True)
    np.testing.assert_allclose(counted.center, repeated.center, rtol=1e-12)
    np.testing.assert_allclose(counted.scale, repeated.scale, rtol=1e-12)


def test_one_pattern_is_a_problem_in_loose_mode():
    assert Problem.from_arrays([[1.0, 2.0]], [1], strict=False).X.shape == (1, 2)


def test_what_comes_out():
    problem = Problem.from_arrays(X, Y)
    np.testing.assert_array_equal(problem.X, X)
    np.testing.assert_array_equal(problem.labels, Y)
    assert problem.names == ("x0", "x1")
    np.testing.assert_array_equal(problem.center, 0.0)
    np.testing.assert_array_equal(problem.scale, 1.0)
    assert Problem.from_arrays(X, Y, names=["a", 3]).names == ("a", "3")


def test_standardize():
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((30, 4)) * [1.0, 1e-6, 1e6, 3.0] + [0.0, 5.0, -1e7, 2.0]
    problem = Problem.from_arrays(raw, np.sign(rng.standard_normal(30)), standardize=True)
    np.testing.assert_allclose(problem.X.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(problem.X.std(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(problem.X * problem.scale + problem.center, raw, rtol=1e-12)


def test_signed_design():
    problem = Problem.from_arrays(X, Y)
    np.testing.assert_array_equal(problem.signed(), X * Y[:, None])
    np.testing.assert_array_equal(problem.signed(intercept=True), np.column_stack([X * Y[:, None], Y]))
    assert problem.signed().flags.c_contiguous


def test_inputs_are_not_modified_nor_watched():
    mine, labels = X.copy(), Y.astype(float)
    problem = Problem.from_arrays(mine, labels, standardize=True)
    solve(problem, SpikeSlab(0.5), ThetaMixture(0.9))
    np.testing.assert_array_equal(mine, X)
    np.testing.assert_array_equal(labels, Y)


def test_solving_does_not_modify_the_problem():
    rng = np.random.default_rng(0)
    patterns, labels = rng.standard_normal((12, 5)), np.where(rng.random(12) < 0.5, 1, -1)
    problem = Problem.from_arrays(patterns, labels)
    solve(problem, SpikeSlab(0.5), ThetaMixture(0.9), intercept=Normal(0.1), options=EPOptions(learn=("rho",)))
    np.testing.assert_array_equal(problem.X, patterns)
    np.testing.assert_array_equal(problem.labels, labels)


def read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


LAYOUTS = {
    "fortran": np.asfortranarray,
    "read only": read_only,
    "every second row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed view": lambda a: a[::-1].copy()[::-1],
    "lists": lambda a: a.tolist(),
    "float32": lambda a: a.astype(np.float32),
    "big endian": lambda a: a.astype(">f8"),
    "matrix of objects": lambda a: a.astype(object),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("shape", [(24, 10), (8, 20)], ids=str)
def test_layout_and_type_do_not_matter(layout, shape):
    rng = np.random.default_rng(1)
    patterns = rng.standard_normal(shape).astype(np.float32).astype(np.float64)
    labels = np.where(patterns[:, 0] > 0, 1, -1)
    plain = solve(Problem.from_arrays(patterns, labels), SpikeSlab(0.5), ThetaMixture(0.9))
    other = solve(Problem.from_arrays(layout(patterns), layout(labels * 1.0)), SpikeSlab(0.5), ThetaMixture(0.9))
    np.testing.assert_array_equal(other.mean, plain.mean)
    np.testing.assert_array_equal(other.std, plain.std)


def test_solves_share_one_signed_design_that_nobody_can_write_to_and_that_does_not_travel():
    problem = Problem.from_arrays([[1.0, 2.0], [3.0, -4.0]], [1, -1])
    design = problem.signed()
    assert problem.signed() is design
    assert problem.signed(intercept=True).shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        design[0, 0] = 5.0
    sent = pickle.loads(pickle.dumps(problem))
    assert "_signed" not in vars(sent)
    np.testing.assert_array_equal(sent.signed(), design)
