import json
import os
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from dilutron import (
    EPOptions,
    Normal,
    Posterior,
    Probit,
    Problem,
    RobustProbit,
    SpikeSlab,
    Theta,
    ThetaMixture,
    __version__,
    files,
    solve,
)
from dilutron.posterior import digest
from tests.problems import teacher_problem


def fitted(weights=None, labels=None, *, n=20, alpha=2.0, standardize=False, names=None, **kwargs):
    truth = teacher_problem(n, alpha, seed=1, eta=0.9)[1]
    problem = Problem.from_arrays(truth.X, truth.labels, standardize=standardize, names=names)
    return solve(problem, weights or SpikeSlab(0.25), labels or ThetaMixture(0.9), **kwargs)


KINDS = {
    "plain": {},
    "wide": {"alpha": 0.5},
    "arrays": {"weights": SpikeSlab(np.linspace(0.1, 0.6, 20), np.linspace(0.5, 2, 20), (0.2, 0.3))},
    "theta": {"labels": Theta(), "options": EPOptions(max_iter=30)},
    "probit": {"labels": Probit(2.0)},
    "intercept": {"intercept": Normal(0.1), "standardize": True, "names": [f"gène {i}" for i in range(20)]},
    "normal weights": {"weights": Normal(np.linspace(0.5, 2.0, 20)), "labels": Probit(1.0)},
    "learned": {"labels": RobustProbit(0.9, 2.0), "options": EPOptions(learn=("rho", "eta"))},
    "cut short": {"options": EPOptions(max_iter=1)},
}
ROWS = np.random.default_rng(9).standard_normal((6, 20))


def same(a, b):
    """Equal, arrays entry by entry."""
    if isinstance(a, tuple) and hasattr(a, "_fields"):
        return type(a) is type(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a == b


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_comes_back(kind, tmp_path):
    posterior = fitted(**KINDS[kind])
    assert posterior.save(tmp_path / "fit") == tmp_path / "fit"
    loaded = Posterior.load(tmp_path / "fit")
    for name in vars(posterior):
        if name in ("weights", "labels"):
            one, other = getattr(posterior, name), getattr(loaded, name)
            assert type(one) is type(other)
            assert all(same(value, getattr(other, key)) for key, value in vars(one).items())
        elif name != "source":
            assert same(getattr(posterior, name), getattr(loaded, name)), name
    assert loaded.n_iter == posterior.n_iter
    np.testing.assert_array_equal(loaded.covariance().dense(), posterior.covariance().dense())
    kept = replace(posterior, source=lambda: posterior.covariance().alone())  # as it is written, without the patterns
    for before, after, first in zip(*(one.predict(ROWS) for one in (kept, loaded, posterior)), strict=True):
        np.testing.assert_array_equal(after, before)
        np.testing.assert_allclose(after, first, rtol=1e-13)
    if kind != "normal weights":
        np.testing.assert_array_equal(loaded.probability(ROWS), kept.probability(ROWS))


def test_a_folder_holds_no_patterns(tmp_path):
    """Whoever forwards a posterior for others to predict with does not forward the table."""
    problem, _ = teacher_problem(30, 0.5, seed=1)
    folder = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9)).save(tmp_path / "fit")
    with np.load(folder / "arrays.npz") as file:
        for name in file.files:
            rows = np.atleast_2d(file[name])
            if rows.shape[1] == 30:
                near = [np.abs(np.corrcoef(row, pattern)[0, 1]) for row in rows if row.std() for pattern in problem.X]
                assert max(near, default=0.0) < 0.999, name


def test_what_was_held_comes_back(tmp_path):
    posterior = replace(fitted(), held=("eta", "rho"))
    assert Posterior.load(posterior.save(tmp_path / "fit")).held == ("eta", "rho")


def test_a_loaded_posterior_starts_a_run(tmp_path):
    problem, _ = teacher_problem(20, 2.0, seed=1, eta=0.9)
    loaded = Posterior.load(solve(problem, SpikeSlab(0.25), ThetaMixture(0.9)).save(tmp_path / "fit"))
    assert solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), start=loaded).n_iter <= 2


def test_files_are_stamped_and_plain(tmp_path):
    folder = fitted().save(str(tmp_path / "deep" / "er" / "fit"))
    assert sorted(path.name for path in folder.iterdir()) == ["arrays.npz", "posterior.json"]
    facts = json.loads((folder / "posterior.json").read_text(encoding="utf-8"))
    assert facts["dilutron"] == __version__
    assert isinstance(facts["format"], int)
    with np.load(folder / "arrays.npz", allow_pickle=False) as file:
        assert all(file[name].dtype.kind == "f" for name in file.files)


def test_without_its_covariance_it_is_small_and_says_so(tmp_path):
    posterior = fitted()
    folder = posterior.save(tmp_path / "fit", covariance=False)
    loaded = Posterior.load(folder)
    np.testing.assert_array_equal(loaded.mean, posterior.mean)
    for call in (loaded.covariance, lambda: loaded.predict(ROWS), lambda: loaded.probability(ROWS)):
        with pytest.raises(ValueError, match="saved without its covariance: save it with covariance=True"):
            call()
    loaded.save(tmp_path / "again")
    with pytest.raises(ValueError, match="without its covariance"):
        Posterior.load(tmp_path / "again").predict(ROWS)


def test_an_older_posterior_is_replaced(tmp_path):
    fitted().save(tmp_path / "fit")
    fitted(labels=Probit(2.0)).save(tmp_path / "fit", covariance=False)
    assert Posterior.load(tmp_path / "fit").labels == Probit(2.0)
    assert [path.name for path in tmp_path.iterdir()] == ["fit"]


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "fit").mkdir()
    fitted().save(tmp_path / "fit")
    assert Posterior.load(tmp_path / "fit").method == "ep"


def test_what_is_not_a_posterior_is_left_alone(tmp_path):
    folder, file = tmp_path / "thesis", tmp_path / "notes.txt"
    folder.mkdir()
    (folder / "chapter.txt").write_text("years of work")
    file.write_text("more")
    for target in (folder, file):
        with pytest.raises(ValueError, match=rf"{target.name} exists and is not a saved posterior: choose another"):
            fitted().save(target)
    assert (folder / "chapter.txt").read_text() == "years of work"
    assert file.read_text() == "more"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "trouble", [OSError("disk full"), KeyboardInterrupt(), MemoryError()], ids=lambda t: type(t).__name__
)
@pytest.mark.parametrize("where", ["np.savez", "json.dump", "os.replace"])
@pytest.mark.parametrize("older", [True, False], ids=["over an older one", "fresh"])
def test_trouble_while_saving_leaves_all_as_it_was(tmp_path, monkeypatch, trouble, where, older):
    if older:
        fitted(labels=Probit(2.0)).save(tmp_path / "fit")
    new = fitted()

    def fail(*args, **kwargs):
        raise trouble

    modules = {"np": np, "json": json, "os": os}
    module, name = where.split(".")
    with monkeypatch.context() as patch:
        patch.setattr(files, "_exchanged", lambda *_: False)  # a system that needs two moves
        patch.setattr(modules[module], name, fail)
        with pytest.raises(type(trouble)):
            new.save(tmp_path / "fit")
    assert [path.name for path in tmp_path.iterdir()] == (["fit"] if older else [])
    if older:
        assert Posterior.load(tmp_path / "fit").labels == Probit(2.0)


def test_trouble_between_the_two_moves_brings_the_older_one_back(tmp_path, monkeypatch):
    """The old folder has been moved aside, the new one cannot be moved in."""
    fitted(labels=Probit(2.0)).save(tmp_path / "fit")
    new, replace, calls = fitted(), os.replace, []

    def second_fails(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError("no")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_exchanged", lambda *_: False)  # a system that needs two moves
        patch.setattr(os, "replace", second_fails)
        with pytest.raises(OSError, match="no"):
            new.save(tmp_path / "fit")
    assert Posterior.load(tmp_path / "fit").labels == Probit(2.0)
    assert [path.name for path in tmp_path.iterdir()] == ["fit"]


def signed(folder, facts):
    """Written by someone who mends the checksum."""
    facts.pop("sha256", None)
    facts |= {"sha256": digest(facts, folder)}
    (folder / "posterior.json").write_text(json.dumps(facts), encoding="utf-8")


def facts_of(folder):
    return json.loads((folder / "posterior.json").read_text(encoding="utf-8"))


def edit(folder, **changes):
    signed(folder, facts_of(folder) | changes)


def without(folder, name):
    facts = facts_of(folder)
    del facts[name]
    signed(folder, facts)


def arrays(folder, **changes):
    with np.load(folder / "arrays.npz") as file:
        kept = {name: file[name] for name in file.files}
    kept |= changes
    np.savez(folder / "arrays.npz", **{name: value for name, value in kept.items() if value is not None})
    signed(folder, facts_of(folder))


def truncated(path, share=0.5):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


DAMAGE = {
    "no json": lambda folder: (folder / "posterior.json").unlink(),
    "no arrays": lambda folder: (folder / "arrays.npz").unlink(),
    "half a json": lambda folder: truncated(folder / "posterior.json"),
    "empty json": lambda folder: (folder / "posterior.json").write_text(""),
    "json of another thing": lambda folder: (folder / "posterior.json").write_text("[1, 2]"),
    "not utf-8": lambda folder: (folder / "posterior.json").write_bytes(b"\xff\xfe\x00"),
    "half the arrays": lambda folder: truncated(folder / "arrays.npz"),
    "nearly all the arrays": lambda folder: truncated(folder / "arrays.npz", 0.95),
    "empty arrays": lambda folder: (folder / "arrays.npz").write_bytes(b""),
    "arrays of another thing": lambda folder: (folder / "arrays.npz").write_bytes(b"not a zip file"),
    "newer format": lambda folder: edit(folder, format=99),
    "no format": lambda folder: without(folder, "format"),
    "no status": lambda folder: without(folder, "status"),
    "no trace": lambda folder: without(folder, "trace"),
    "unknown status": lambda folder: edit(folder, status="splendid"),
    "unknown prior": lambda folder: edit(folder, weights={"kind": "os.system"}),
    "bad prior": lambda folder: edit(folder, weights={"kind": "SpikeSlab", "rho": 7.0}),
    "names too few": lambda folder: edit(folder, names=["a"]),
    "trace of another shape": lambda folder: edit(folder, trace=[1, 2, 3]),
    "held is a word": lambda folder: edit(folder, held="eta"),
    "a slope that is no number": lambda folder: edit(folder, slopes={"eta": "nan"}),
    "no mean": lambda folder: arrays(folder, mean=None),
    "std too short": lambda folder: arrays(folder, std=np.ones(3)),
    "half a covariance": lambda folder: arrays(folder, covariance_root=None),
    "half the sites": lambda folder: arrays(folder, site_precision=None),
    "objects": lambda folder: arrays(folder, mean=np.array([{"a": 1}] * 20, dtype=object)),
    "inclusion too short": lambda folder: arrays(folder, inclusion=np.ones(3)),
    "covariance of another size": lambda folder: arrays(folder, covariance_base=np.ones(3)),
    "means as words": lambda folder: arrays(folder, mean=np.array(["a"] * 20)),
}


def test_an_edit_is_noticed(tmp_path):
    folder = fitted().save(tmp_path / "fit")
    path = folder / "posterior.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"status": "converged"', '"status": "max_iter"'))
    with pytest.raises(ValueError, match="damaged: ValueError it was changed after it was written"):
        Posterior.load(folder)


def test_packed_arrays_are_not_unpacked(tmp_path):
    """A few kilobytes may unpack to more than any memory holds."""
    folder = fitted().save(tmp_path / "fit")
    with np.load(folder / "arrays.npz") as file:
        np.savez_compressed(folder / "packed.npz", **{name: file[name] for name in file.files})
    (folder / "packed.npz").rename(folder / "arrays.npz")
    signed(folder, facts_of(folder))
    with pytest.raises(ValueError, match=r"damaged and cannot be read: ValueError \w+.npy is packed"):
        Posterior.load(folder)


@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_a_value_error_that_names_the_folder(harm, tmp_path):
    folder = fitted().save(tmp_path / "fit")
    harm(folder)
    with pytest.raises(ValueError, match=str(folder)):
        Posterior.load(folder)


def test_a_flipped_byte_in_the_arrays_is_noticed(tmp_path):
    folder = fitted().save(tmp_path / "fit")
    data = bytearray((folder / "arrays.npz").read_bytes())
    with zipfile.ZipFile(folder / "arrays.npz") as file:
        place = file.getinfo("mean.npy").header_offset + 200
    data[place] ^= 0xFF
    (folder / "arrays.npz").write_bytes(bytes(data))
    with pytest.raises(ValueError, match=str(folder)):
        Posterior.load(folder)


def test_nothing_there(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(ValueError, match=f"{path} is not a saved posterior"):
            Posterior.load(path)


def test_a_pickle_in_the_arrays_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the trap would spring
    folder = fitted().save(tmp_path / "fit")
    arrays(folder, mean=np.array([Trap()] * 20, dtype=object))
    with pytest.raises(ValueError, match="damaged"):
        Posterior.load(folder)
    assert not (tmp_path / "sprung").exists()


class Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


@pytest.mark.parametrize("kind", ["plain", "wide", "intercept"])
def test_prediction_is_the_mean_over_the_posterior(kind):
    """Against drawing weights from the dense covariance: 200,000 draws are good to about 0.3 %."""
    posterior = fitted(**KINDS[kind])
    covariance = posterior.covariance().dense()
    means = np.append(posterior.mean, posterior.intercept) if len(covariance) > 20 else posterior.mean
    draws = np.random.default_rng(0).multivariate_normal(means, covariance, 200_000, method="cholesky")
    table = (ROWS - posterior.center) / posterior.scale
    table = np.column_stack([table, np.ones(6)]) if len(means) > 20 else table
    fields = draws @ table.T
    predicted = posterior.predict(ROWS)
    np.testing.assert_allclose(predicted.mean, table @ means, rtol=1e-10)
    np.testing.assert_allclose(predicted.var, np.einsum("ij,jk,ik->i", table, covariance, table), rtol=1e-8)
    np.testing.assert_allclose(fields.mean(axis=0), predicted.mean, atol=0.01 * np.sqrt(predicted.var).max())
    np.testing.assert_allclose(fields.var(axis=0), predicted.var, rtol=0.02)
    right = posterior.labels.eta
    share = np.mean(np.where(fields > 0, right, 1 - right), axis=0)
    np.testing.assert_allclose(posterior.probability(ROWS), share, atol=0.005)


def test_the_training_rows_are_predicted_as_the_engine_sees_them():
    problem, _ = teacher_problem(20, 2.0, seed=1, eta=0.9)
    posterior = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), options=EPOptions(tol=1e-9))
    assert np.mean((posterior.probability(problem.X) > 0.5) == (problem.labels > 0)) > 0.85
    turned = posterior.probability(-problem.X)
    np.testing.assert_allclose(turned, 1.0 - posterior.probability(problem.X), atol=1e-12)


def test_one_row_may_be_a_vector():
    posterior = fitted()
    np.testing.assert_array_equal(posterior.predict(ROWS[0]).mean, posterior.predict(ROWS[:1]).mean)


@pytest.mark.parametrize("rows", [np.ones((2, 19)), np.ones((2, 3, 20)), np.ones(3), np.ones((0, 21))], ids=np.shape)
def test_rows_must_have_the_columns_of_the_fit(rows):
    with pytest.raises(ValueError, match="rows must have 20 columns, as in the fit, got shape"):
        fitted().predict(rows)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_must_be_numbers(value):
    rows = ROWS.copy()
    rows[2, 3] = value
    with pytest.raises(ValueError, match=rf"rows has the value {value} in row 2, column 3"):
        fitted().predict(rows)
    with pytest.raises(ValueError, match="rows"):
        fitted().predict([["a"] * 20])
