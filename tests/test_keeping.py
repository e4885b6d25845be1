import json
import os
import pickle

import numpy as np
import pytest

from dilutron import __version__, files, keeping
from dilutron.estimators import AMPClassifier, EPClassifier, R1BCSClassifier, VAMPClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((50, 8))
SIGN = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(50) > 0
THREE = np.where(X[:, 2] > 0.7, 2, SIGN)
LABELS = {
    "strings": np.where(SIGN, "tumour", "gesund äöü"),
    "objects": np.where(SIGN, "b", "a").astype(object),
    "bools": SIGN,
    "ints": np.where(SIGN, 7, -3),
    "floats": np.where(SIGN, 2.0, -1.0),
    "three": THREE,
}


def same(one, other, rows=X):
    np.testing.assert_array_equal(one.predict_proba(rows), other.predict_proba(rows))
    np.testing.assert_array_equal(one.predict(rows), other.predict(rows))
    assert one.classes_.dtype == other.classes_.dtype
    for name, value in vars(one).items():
        if name.endswith("_") and name != "fits_":
            np.testing.assert_equal(getattr(other, name), value)
    for a, b in zip(one.suspect_labels(n_labels=5), other.suspect_labels(n_labels=5), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(one.coef_interval(), other.coef_interval(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def folder(tmp_path):
    return EPClassifier(0.3).fit(X, LABELS["strings"]).save(tmp_path / "model")


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_what_is_saved_comes_back(labels, tmp_path):
    model = EPClassifier().fit(X, labels)
    loaded = EPClassifier.load(model.save(tmp_path / "deep" / "model"))
    same(model, loaded)
    assert loaded.get_params() == model.get_params()
    same(model, pickle.loads(pickle.dumps(loaded)))


@pytest.mark.parametrize("kind", [VAMPClassifier, AMPClassifier, R1BCSClassifier])
def test_of_every_method(kind, tmp_path):
    model = kind().fit(X, LABELS["strings"])
    same(model, kind.load(model.save(tmp_path / "model")))


def test_parameters_of_all_sorts(tmp_path):
    weights = {"gesund äöü": 2.0, "tumour": 1.0}
    prior = np.linspace(0.1, 0.5, 8)
    model = EPClassifier(np.float64(0.3), prior_inclusion=prior, class_weight=weights, eta=1.0, beta=5, fdr=None)
    loaded = EPClassifier.load(model.fit(X, LABELS["strings"]).save(tmp_path / "model"))
    assert loaded.class_weight == weights
    np.testing.assert_array_equal(loaded.prior_inclusion, prior)
    assert loaded.fit(X, LABELS["strings"]).n_iter_ == model.n_iter_
    with pytest.raises(ValueError, match=r"random_state cannot be saved: it holds RandomState"):
        EPClassifier(random_state=np.random.RandomState(0)).fit(X, SIGN).save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_other_labels_are_refused(tmp_path):
    model = EPClassifier(0.3).fit(X, SIGN)
    model.classes_ = np.array([1, "a"], dtype=object)
    with pytest.raises(ValueError, match="classes cannot be saved"):
        model.save(tmp_path / "model")


def test_names_are_checked_when_predicting_after_loading(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"gene {i}" for i in range(8)])
    model = EPClassifier(0.3).fit(frame, SIGN)
    loaded = EPClassifier.load(model.save(tmp_path / "model"))
    same(model, loaded, frame)
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"gene 0": "gene x"}))


def test_a_loaded_model_starts_warm(folder):
    cold = EPClassifier(beta=0.5).fit(X, LABELS["strings"])
    cold.save(folder)
    loaded = EPClassifier.load(folder).set_params(warm_start=True)
    assert loaded.fit(X, LABELS["strings"]).n_iter_ < cold.n_iter_


def test_another_kind_is_named(folder):
    with pytest.raises(ValueError, match=r"holds a EPClassifier: load it with EPClassifier\.load"):
        VAMPClassifier.load(folder)


def test_files_are_plain_and_stamped(folder):
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert names == {"estimator.json", "posterior.json", "arrays.npz"}
    inner = json.loads(json.loads((folder / "estimator.json").read_text(encoding="utf-8"))["text"])
    assert keeping.decoded(inner["body"])["dilutron"] == __version__


def edited(folder, change):
    path = folder / "estimator.json"
    outer = json.loads(path.read_text(encoding="utf-8"))
    change(outer)
    path.write_text(json.dumps(outer), encoding="utf-8")


def signed(folder, change):
    """An edit by someone who mends the checksum."""

    def both(outer):
        inner = json.loads(outer["text"])
        facts = keeping.decoded(inner["body"])
        change(facts)
        inner["body"] = keeping.encoded("facts", facts)
        outer["text"] = json.dumps(inner)
        outer["sha256"] = keeping._digest(outer["text"].encode())

    edited(folder, both)


DAMAGE = {
    "no json": lambda f: (f / "estimator.json").unlink(),
    "half a json": lambda f: (f / "estimator.json").write_bytes((f / "estimator.json").read_bytes()[:99]),
    "not utf-8": lambda f: (f / "estimator.json").write_bytes(b"\xff\xfe\x00"),
    "json of another thing": lambda f: (f / "estimator.json").write_text("[1]"),
    "newer format": lambda f: edited(f, lambda o: o.update(format=3)),
    "edited": lambda f: edited(f, lambda o: o.update(text=o["text"].replace("tumour", "health"))),
    "no text": lambda f: edited(f, lambda o: o.pop("text")),
    "no posterior": lambda f: (f / "posterior-0-0" / "arrays.npz").unlink(),
    "edited posterior": lambda f: (f / "posterior-0-0" / "posterior.json").write_text(
        (f / "posterior-0-0" / "posterior.json").read_text().replace('"rho": 0.3', '"rho": 0.4')
    ),
    "a class too many": lambda f: signed(f, lambda facts: facts.pop("classes")),
    "unknown parameter": lambda f: signed(f, lambda facts: facts["parameters"].update(wings=2)),
    "other names": lambda f: signed(f, lambda facts: facts.update(names=np.array(list("abcdefgh"), dtype=object))),
    "other size": lambda f: signed(f, lambda facts: facts.update(n_features=9)),
    "endless sharpness": lambda f: signed(f, lambda facts: facts["fits"][0].update(sharpness=np.inf)),
    "shares of nothing": lambda f: signed(f, lambda facts: facts["fits"][0].update(weights=[0.0])),
    "no fits": lambda f: signed(f, lambda facts: facts.update(fits=3)),
}


@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_a_value_error_that_names_the_folder(harm, folder):
    harm(folder)
    with pytest.raises(ValueError, match=str(folder)):
        EPClassifier.load(folder)


def test_other_formats_say_whether_to_upgrade_or_to_fit_again(folder):
    for format_, words in ((99, "upgrade it"), (1, "an older one wrote it: fit and save again"), ("x", "upgrade it")):
        edited(folder, lambda outer, new=format_: outer.update(format=new))
        with pytest.raises(ValueError, match=words):
            EPClassifier.load(folder)


def test_a_model_of_a_newer_version_is_read_with_a_warning(folder):
    signed(folder, lambda facts: facts.update(dilutron="99.10.0rc1"))
    with pytest.warns(UserWarning, match=r"was saved by dilutron 99\.10\.0rc1, newer than this, .*: upgrade") as told:
        assert EPClassifier.load(folder).rho == 0.3
    assert told[0].filename == __file__
    signed(folder, lambda facts: facts.update(dilutron="0.0.9"))
    EPClassifier.load(folder)  # of an older one, without


def test_no_path_that_a_model_names_is_opened(folder):
    """It may lead anywhere, to a file without an end for one."""

    def elsewhere(outer):
        inner = json.loads(outer["text"])
        inner["files"]["/dev/zero"] = "0" * 64
        outer["text"] = json.dumps(inner)
        outer["sha256"] = keeping._digest(outer["text"].encode())

    edited(folder, elsewhere)
    assert EPClassifier.load(folder).rho == 0.3


def test_a_file_too_many_is_noticed(folder):
    (folder / "posterior-0-1").mkdir()
    (folder / "posterior-0-1" / "arrays.npz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"posterior-0-1/arrays\.npz was changed"):
        EPClassifier.load(folder)


def test_what_is_not_an_estimator_is_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(ValueError, match="exists and is not a saved estimator: choose another"):
        EPClassifier(0.3).fit(X, SIGN).save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


@pytest.mark.parametrize("call", [1, 2], ids=["before the move", "between the moves"])
@pytest.mark.parametrize("trouble", [OSError("disk full"), KeyboardInterrupt()], ids=lambda t: type(t).__name__)
def test_trouble_while_saving_leaves_all_as_it_was(folder, monkeypatch, trouble, call):
    new, replace, calls = EPClassifier(0.5).fit(X, SIGN), os.replace, []

    def fails(source, target):
        if str(target).startswith(str(folder)) or str(source) == str(folder):
            calls.append(target)
            if len(calls) == call:
                raise trouble
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_exchanged", lambda *_: False)  # a system that needs two moves
        patch.setattr(os, "replace", fails)
        with pytest.raises(type(trouble)):
            new.save(folder)
    assert EPClassifier.load(folder).rho == 0.3
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    new.save(folder)
    assert EPClassifier.load(folder).rho == 0.5


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        EPClassifier().save(tmp_path / "model")
