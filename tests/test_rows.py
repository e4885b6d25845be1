"""Tables that are not in memory: the same answers as from an array, from any source and on any scheduler."""

import os
import signal
import sys
import threading

import numpy as np
import pytest

from dilutron import EPOptions, Normal, Problem, RobustProbit, SpikeSlab, solve
from dilutron.chunked import Chunked, choose
from dilutron.estimators import EPClassifier
from dilutron.rows import WIDEST, Rows

dask = pytest.importorskip("dask")
array = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
M, N = 300, 12


def made(seed=0, shape=(M, N)):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) + 0.3
    weights = np.where(np.arange(shape[1]) < 4, 1.0, 0.0)
    labels = np.where(X @ weights - 1.2 + rng.standard_normal(shape[0]) > 0.0, 1.0, -1.0)
    return X, labels


def answer(problem, callback=None, **options):
    options = EPOptions(tol=1e-8, **options)
    return solve(
        problem, SpikeSlab(0.3), RobustProbit(0.95, 1.0), options=options, intercept=Normal(0.1), callback=callback
    )


def assert_same(one, other):
    for name in ("mean", "std", "inclusion", "flip", "center", "scale", "left_out"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-8, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-8)
    np.testing.assert_allclose(one.covariance().dense(), other.covariance().dense(), rtol=1e-7, atol=1e-10)
    assert (one.status, one.n_iter) == (other.status, other.n_iter)


def sources(X, folder):
    """One table as everything that `Rows.of` and `Problem.from_arrays` take."""
    np.save(folder / "x.npy", X)
    mapped = np.memmap(folder / "x.bin", np.float64, "w+", 64, X.shape)
    mapped[:] = X
    mapped.flush()
    yield "file", Rows.of(folder / "x.npy", block_rows=70)
    yield "one block", Rows.of(str(folder / "x.npy"))
    yield "map", Rows.of(np.memmap(folder / "x.bin", np.float64, "r", 64, X.shape), block_rows=299)
    yield "array", Rows.of(X, block_rows=1 + len(X) // 3)
    yield "dask", array.from_array(X, chunks=(90, N))
    yield "dask, columns cut too", array.from_array(X, chunks=(90, 5))
    yield "dask, other blocks", Rows.of(array.from_array(X, chunks=(90, 5)), block_rows=33)


def test_every_source_gives_the_answer_of_an_array(tmp_path):
    X, labels = made()
    wanted = answer(Problem.from_arrays(X, labels, standardize=True))
    for name, source in sources(X, tmp_path):
        problem = Problem.from_arrays(source, labels, standardize=True)
        assert isinstance(choose(problem.signed(intercept=True)), Chunked), name
        assert_same(answer(problem), wanted)


def test_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    X, labels = made()
    kept = zarr.create_array(store=str(tmp_path / "x.zarr"), shape=X.shape, chunks=(80, 5), dtype="float64")
    kept[:] = X
    wanted = answer(Problem.from_arrays(X, labels))
    assert_same(answer(Problem.from_arrays(kept, labels)), wanted)
    assert_same(answer(Problem.from_arrays(Rows.of(tmp_path / "x.zarr"), labels)), wanted)


def test_parquet(tmp_path):
    polars = pytest.importorskip("polars")
    X, labels = made()
    names = [f"gene {k}" for k in range(N)]
    path = tmp_path / "x.parquet"
    polars.DataFrame(dict(zip(names, X.T, strict=True)) | {"who": ["a"] * M}).write_parquet(path, row_group_size=64)
    with pytest.raises(ValueError, match=r"column 'who' of .* holds no numbers: pass columns"):
        Rows.of(path)
    with pytest.raises(ValueError, match="has no column 'gene 99'; it has 'gene 0'"):
        Rows.of(path, columns=["gene 99"])
    problem = Problem.from_arrays(Rows.of(path, columns=names, block_rows=100), labels)
    assert problem.names == tuple(names)
    assert_same(answer(problem), answer(Problem.from_arrays(X, labels)))


def test_rows_count_more_than_once():
    X, labels = made()
    copies = np.random.default_rng(1).integers(0, 3, M).astype(float)
    copies[:100] = 0.0  # a whole block that counts for nothing
    rows = Problem.from_arrays(Rows.of(X, block_rows=50), labels, standardize=True, copies=copies)
    plain = Problem.from_arrays(X, labels, standardize=True, copies=copies)
    np.testing.assert_allclose(rows.center, plain.center, rtol=1e-12)
    np.testing.assert_allclose(rows.scale, plain.scale, rtol=1e-12)


def test_learning_and_prediction():
    X, labels = made()
    plain, rows = (Problem.from_arrays(table, labels) for table in (X, Rows.of(X, block_rows=64)))
    one, other = (answer(problem, learn=("rho", "eta")) for problem in (plain, rows))
    assert_same(other, one)
    np.testing.assert_allclose(other.weights.rho, one.weights.rho, rtol=1e-7)
    np.testing.assert_allclose(other.probability(X[:9]), one.probability(X[:9]), rtol=1e-7)


def test_new_rows_are_predicted_in_blocks(tmp_path):
    X, labels = made()
    posterior = answer(Problem.from_arrays(Rows.of(X, block_rows=64), labels, standardize=True))
    mean, var = posterior.predict(X)
    for name, source in sources(X, tmp_path):
        if not isinstance(source, np.ndarray):
            blocks = posterior.predict(source)
            np.testing.assert_allclose(blocks.mean, mean, rtol=1e-12, atol=1e-12, err_msg=name)
            np.testing.assert_allclose(blocks.var, var, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(posterior.probability(Rows.of(X, block_rows=77)), posterior.probability(X), rtol=1e-12)
    counted = Counted(X)
    posterior.predict(Rows.of(counted, block_rows=100))
    assert counted.passes == 1
    X[120, 2] = np.nan
    with pytest.raises(ValueError, match="rows has the value nan in row 120, column 2: impute it first"):
        posterior.predict(Rows.of(X, block_rows=50))
    with pytest.raises(ValueError, match=rf"rows must have {N} columns, as in the fit, got shape \({M}, {N - 1}\)"):
        posterior.predict(Rows.of(X[:, 1:], block_rows=50))


def test_columns_of_blocks_are_those_of_the_fit(tmp_path):
    polars = pytest.importorskip("polars")
    X, labels = made()
    names = [f"gene {k}" for k in range(N)]
    polars.DataFrame(dict(zip(names, X.T, strict=True))).write_parquet(tmp_path / "x.parquet")
    posterior = answer(Problem.from_arrays(X, labels, names=names))
    swapped = Rows.of(tmp_path / "x.parquet", columns=names[::-1])
    with pytest.raises(ValueError, match=rf"rows has 'gene {N - 1}' in column 0, the fit 'gene 0'"):
        posterior.predict(swapped)
    nameless = answer(Problem.from_arrays(X, labels))
    for known in (posterior, nameless):
        np.testing.assert_allclose(known.predict(Rows.of(tmp_path / "x.parquet")).mean, known.predict(X).mean)


def test_the_classifiers_refuse_blocks_and_say_what_takes_them():
    X, labels = made()
    rows, known = Rows.of(X), EPClassifier(rho=0.3, eta=0.9, n_features_to_select=2).fit(X, labels)
    for call in (known.predict_proba, known.transform, lambda table: EPClassifier().fit(table, labels), np.asarray):
        with pytest.raises(ValueError, match=r"in blocks of rows, .* a whole one is needed: .* by dilutron.solve"):
            call(rows)


class Counted:
    """A table that counts the rows that are read of it."""

    def __init__(self, X):
        self.X, self.shape, self.dtype, self.ndim, self.read = X, X.shape, X.dtype, 2, 0
        self.lock = threading.Lock()

    def __getitem__(self, where):
        part = self.X[where]
        with self.lock:
            self.read += len(part)
        return part

    @property
    def passes(self):
        return self.read / len(self.X)


@pytest.mark.parametrize("standardize", [False, True])
def test_passes_over_the_rows(standardize):
    """One or two to check, two for each iteration, none for the covariance of the last."""
    X, labels = made()
    table = Counted(X)
    rows = array.from_array(table, chunks=(100, N), asarray=False, fancy=False, meta=np.empty((0, 0)))
    problem = Problem.from_arrays(rows, labels, standardize=standardize)
    assert table.passes == 1 + standardize
    posterior = answer(problem)
    posterior.covariance()
    assert table.passes == 1 + standardize + 2 * posterior.n_iter + 1, "the last one checks the answer"


def test_unequal_variances_take_a_pass():
    X, labels = made()
    rows = Problem.from_arrays(Rows.of(X, block_rows=70), labels).signed(intercept=True)
    for var in (np.full(N + 1, 2.0), np.append(np.full(N, 2.0), 7.0), np.arange(1.0, N + 2.0)):
        wanted = np.column_stack([X, np.ones(M)]) ** 2 @ var
        np.testing.assert_allclose(Chunked(rows).field_var(var), wanted, rtol=1e-12)


@pytest.fixture(scope="module")
def cluster():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "5s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=100
        ) as made,
        distributed.Client(made),
    ):
        made.wait_for_workers(2)
        yield made


def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path, cluster):
    X, labels = made(shape=(3000, N))
    np.save(tmp_path / "x.npy", X)
    wanted = answer(Problem.from_arrays(X, labels))
    victim, seen = next(iter(cluster.workers.values())).pid, []

    def kill(state):
        seen.append(state.error)
        if len(seen) == 3:  # while the next pass is under way
            threading.Timer(0.01, os.kill, (victim, signal.SIGKILL)).start()

    found = answer(Problem.from_arrays(Rows.of(tmp_path / "x.npy", block_rows=250), labels), kill)
    assert len(seen) > 4
    assert victim not in [nanny.pid for nanny in cluster.workers.values()]
    assert_same(found, wanted)
    blocks = found.predict(Rows.of(tmp_path / "x.npy", block_rows=400))
    np.testing.assert_allclose(blocks.var, found.predict(X).var, rtol=1e-12)


def test_errors_of_a_worker_are_those_of_the_data(cluster):
    X, labels = made()
    X[211, 5] = np.nan
    with pytest.raises(ValueError, match="X has the value nan in row 211, column 5: impute or drop it first"):
        Problem.from_arrays(array.from_array(X, chunks=(100, N)), labels)


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"need dask: pip install 'dilutron\[dask\]'"):
        Rows.of(made()[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X, y[:-1]), r"labels must have one entry per row of X, shape \(300,\), got shape \(299,\)"),
        (lambda X, y: (X, 0.5 * (y + 1.0)), "labels must be -1 or"),
        (lambda X, y: (np.where(np.arange(N) == 2, 1.0, X), y), "1 constant column"),
        (lambda X, y: (np.where(np.arange(N) == 2, 1e200 * X, X), y), "values of size .* in column 2"),
        (lambda X, y: (np.where(np.arange(M)[:, None] == 250, 0.0, X), y), "row 250 of X is all zeros"),
        (lambda X, y: (np.where(np.arange(M)[:, None] == 250, np.inf, X), y), "value inf in row 250, column 0"),
        (lambda X, y: (X[:8], y[:8]), "8 rows and 12 columns: blocks of rows are for more rows than columns"),
        (lambda X, y: (X.astype(complex), y), "must be a table of numbers"),
        (lambda X, y: (X[0], y), "must have two dimensions"),
        (lambda X, y: (np.broadcast_to(1.0, (3, WIDEST + 1)), y), "20001 columns: blocks of rows need a square matrix"),
    ],
)
def test_bad_tables_are_refused(change, words):
    X, labels = change(*made())
    with pytest.raises(ValueError, match=words):
        Problem.from_arrays(Rows.of(X, block_rows=100), labels)


def test_bad_sources_are_refused(tmp_path):
    X, labels = made()
    np.save(tmp_path / "x.npy", X)
    for source, words in (
        (tmp_path / "x.csv", r"x\.csv is no \.npy, \.parquet or \.zarr path"),
        (tmp_path / "none.npy", r"there is no .*none\.npy"),
        (np.load(tmp_path / "x.npy", mmap_mode="r")[10:], "a part of a memory map"),
        (array.from_array(X)[array.from_array(X)[:, 0] > 0.0], "unknown length: call X.compute_chunk_sizes"),
    ):
        with pytest.raises(ValueError, match=words):
            Rows.of(source)
    with pytest.raises(ValueError, match="block_rows must be a whole number"):
        Rows.of(X, block_rows=0)
    with pytest.raises(ValueError, match=r"columns are those of a \.parquet file"):
        Rows.of(X, columns=["a"])
    with pytest.raises(ValueError, match='blocks of rows is known to method="ep" only'):
        solve(Problem.from_arrays(Rows.of(X), labels), SpikeSlab(0.3), RobustProbit(0.95, 1.0), method="amp")


def test_a_table_that_shrinks_is_noticed(tmp_path):
    X, labels = made()
    np.save(tmp_path / "x.npy", X)
    rows = Rows.of(tmp_path / "x.npy", block_rows=100)
    np.save(tmp_path / "x.npy", X[:250])
    with pytest.raises(ValueError, match="the rows from 200 on are 50, not 100: the table has changed"):
        Problem.from_arrays(rows, labels)
