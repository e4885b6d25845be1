from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dilutron import (
    EPOptions,
    Probit,
    Problem,
    RobustProbit,
    SpikeSlab,
    Status,
    ThetaMixture,
    ladder,
    learning,
    parameters,
    solve,
    student,
)
from dilutron.data import lesson
from dilutron.ep import Block
from dilutron.gaussian import Primal
from dilutron.priors import Gaussians
from tests.problems import pair_of_blocks, teacher_problem, twins


def probit_problem(n=30, alpha=6.0, beta=1.5, eta=1.0, seed=0):
    """A teacher whose fields carry noise of variance 1/beta, so that lam and beta have a best value."""
    truth = lesson(n, alpha, np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    fields = truth.X @ truth.teacher + rng.standard_normal(len(truth.X)) / np.sqrt(beta)
    labels = np.where(fields * np.where(rng.random(len(fields)) < eta, 1, -1) > 0, 1, -1)
    return Problem.from_arrays(truth.X, labels)


def objective(problem, posterior, **moved):
    """Log evidence with some parameters moved, EP solved again; for rho with its Beta prior."""
    weights = replace(posterior.weights, **{n: v for n, v in moved.items() if n in ("rho", "lam")})
    labels = replace(posterior.labels, **{n: v for n, v in moved.items() if n in ("eta", "beta")})
    again = solve(problem, weights, labels, start=posterior, options=EPOptions(tol=1e-9))
    assert again.status is Status.CONVERGED
    present, absent = weights.counts
    return again.log_evidence + present * np.log(weights.rho) + absent * np.log1p(-weights.rho)


def assert_stationary(problem, posterior, names):
    """No parameter's move of 3 %, in log odds or logs, gains; the slope there is nearly zero."""
    here = objective(problem, posterior)
    for name in names:
        value = getattr(posterior.weights, name, None) or getattr(posterior.labels, name)
        if name in ("rho", "eta"):
            low = 0.0 if name == "rho" else 0.5
            share = (value - low) / (1.0 - low)
            moves = [low + (1.0 - low) / (1.0 + (1.0 - share) / share * np.exp(s * 0.03)) for s in (-1, 1)]
        else:
            moves = [value * np.exp(s * 0.03) for s in (-1, 1)]
        up, down = (objective(problem, posterior, **{name: float(v)}) for v in moves)
        assert max(up, down) < here + 1e-4, name
        assert abs(up - down) / 0.06 < 5e-3, f"slope of the log evidence in {name}"


LEARNED = {
    "rho low": (("rho",), SpikeSlab(0.02), Probit(1.5)),
    "rho high": (("rho",), SpikeSlab(0.95), Probit(1.5)),
    "lam low": (("lam",), SpikeSlab(0.25, 0.01), Probit(1.5)),
    "lam high": (("lam",), SpikeSlab(0.25, 100.0), Probit(1.5)),
    "beta low": (("beta",), SpikeSlab(0.25), Probit(0.02)),
    "beta high": (("beta",), SpikeSlab(0.25), Probit(100.0)),
    "rho, lam": (("rho", "lam"), SpikeSlab(0.8, 10.0), Probit(1.5)),
    "rho, beta": (("rho", "beta"), SpikeSlab(0.05), Probit(0.1)),
}


@pytest.mark.parametrize(("names", "weights", "labels"), LEARNED.values(), ids=LEARNED.keys())
@pytest.mark.parametrize("path", [True, False], ids=["path", "no path"])
def test_learning_ends_where_the_evidence_is_stationary(names, weights, labels, path):
    problem = probit_problem()
    posterior = solve(problem, weights, labels, options=EPOptions(learn=names, path=path, learn_tol=1e-5))
    assert posterior.status is Status.CONVERGED
    assert_stationary(problem, posterior, names)
    for name in {"rho", "lam"} - set(names):
        assert getattr(posterior.weights, name) == getattr(weights, name), "only what was named is learned"
    assert bool(posterior.path) == (path and "rho" in names)


@pytest.mark.parametrize("eta", [0.55, 0.7, 0.999])
@pytest.mark.parametrize("rho", [0.05, 0.95])
def test_rho_and_eta_together_from_bad_starts(rho, eta):
    """The learning of the paper's noisy experiments."""
    problem, _ = teacher_problem(60, 4.0, seed=3, eta=0.9)
    options = EPOptions(learn=("rho", "eta"), learn_tol=1e-5)
    posterior = solve(problem, SpikeSlab(rho), ThetaMixture(eta), options=options)
    assert posterior.status is Status.CONVERGED
    assert_stationary(problem, posterior, ("rho", "eta"))
    assert posterior.labels.eta == pytest.approx(0.9, abs=0.04)
    assert posterior.weights.rho == pytest.approx(0.25, abs=0.12)


def test_path_or_not_the_answer_is_the_same():
    problem, _ = teacher_problem(60, 4.0, seed=3, eta=0.9)
    with_path, without = (
        solve(
            problem,
            SpikeSlab(0.4),
            ThetaMixture(0.8),
            options=EPOptions(learn=("rho", "eta"), path=path, learn_tol=1e-6),
        )
        for path in (True, False)
    )
    assert with_path.weights.rho == pytest.approx(without.weights.rho, rel=1e-3)
    assert with_path.labels.eta == pytest.approx(without.labels.eta, rel=1e-4)
    np.testing.assert_allclose(with_path.mean, without.mean, atol=1e-3)


def test_all_four_together():
    problem = probit_problem(eta=0.93, alpha=8.0)
    names = ("rho", "lam", "eta", "beta")
    posterior = solve(
        problem, SpikeSlab(0.5, 2.0), RobustProbit(0.8, 1.0), options=EPOptions(learn=names, learn_tol=1e-5)
    )
    assert posterior.status is Status.CONVERGED
    fixed = solve(problem, SpikeSlab(0.5, 2.0), RobustProbit(0.8, 1.0))
    assert posterior.log_evidence > fixed.log_evidence
    # The labels see lam and beta only through beta / lam: one direction is flat, and stays where it was.
    here = objective(problem, posterior)
    moved = objective(problem, posterior, lam=posterior.weights.lam * 2, beta=posterior.labels.beta * 2)
    assert moved == pytest.approx(here, abs=1e-5)


def test_arrays_keep_their_ratios():
    problem, _ = teacher_problem(30, 4.0, seed=3, eta=0.9)
    rho = np.linspace(0.1, 0.6, 30)
    posterior = solve(problem, SpikeSlab(rho), ThetaMixture(0.9), options=EPOptions(learn=("rho",)))
    assert posterior.status is Status.CONVERGED
    odds = posterior.weights.rho / (1 - posterior.weights.rho) / (rho / (1 - rho))
    np.testing.assert_allclose(odds, odds[0], rtol=1e-6)


@pytest.mark.parametrize("counts", [(0.0, 0.0), (0.1, 0.1), (5.0, 20.0)])
def test_the_gradient_reaches_the_same_point(counts):
    """With a rate for a problem of this size. Both climb the evidence and what is believed of rho."""
    problem = probit_problem()
    weights = SpikeSlab(0.4, counts=counts)
    em, gradient = (
        solve(problem, weights, Probit(1.0), options=EPOptions(learn=("rho", "beta"), learn_tol=1e-5, **kind))
        for kind in ({}, {"learning": "gradient", "rate": 3e-3})
    )
    assert em.status is Status.CONVERGED
    assert gradient.status is Status.CONVERGED
    assert gradient.weights.rho == pytest.approx(em.weights.rho, rel=2e-3)
    assert gradient.labels.beta == pytest.approx(em.labels.beta, rel=2e-3)
    assert gradient.log_evidence == pytest.approx(em.log_evidence, abs=1e-4)


def test_a_harder_noisy_problem_is_learned_to_the_end():
    """Between its path and its answer lie parameters at which EP hardly converges; learning must pass them by."""
    problem, _ = teacher_problem(50, 4.0, seed=3, eta=0.9)
    options = EPOptions(learn=("rho", "eta"), learn_tol=1e-4, max_iter=5000)
    posterior = solve(problem, SpikeSlab(0.4), ThetaMixture(0.8), options=options)
    assert posterior.n_iter <= 5000
    assert posterior.log_evidence > -107.75, "gradient steps of 3e-4 reach -107.65 (rho 0.151, eta 0.891)"
    assert posterior.status is Status.CONVERGED


def test_the_path_is_recorded():
    problem, _ = teacher_problem(60, 2.0, seed=3, eta=0.9)
    posterior = solve(problem, SpikeSlab(0.4), ThetaMixture(0.9), options=EPOptions(learn=("rho",)))
    sizes = [point.size for point in posterior.path]
    assert len(sizes) >= 3
    assert sizes in (sorted(sizes), sorted(sizes, reverse=True)), "each size follows from the one before"
    assert min(sizes) > 0.99
    assert 8 <= max(sizes) <= 30
    good = [point.log_evidence for point in posterior.path if point.status is Status.CONVERGED]
    assert posterior.log_evidence > max(good) - 0.05, "learning begins at the best of the path, and climbs"


def sparse_problem():
    """Half as many labels as columns: the evidence rises towards sparse weights up to where EP has no fixed point."""
    problem, _ = teacher_problem(60, 0.5, seed=0, eta=0.9)
    return problem


def test_a_parameter_is_held_where_ep_cannot_follow():
    """Nowhere do the slopes vanish. What is held moves no further: EP finds no rest there, or less evidence."""
    problem = sparse_problem()
    posterior = solve(problem, SpikeSlab(0.4), ThetaMixture(0.8), options=EPOptions(learn=("rho", "eta")))
    assert posterior.status is Status.CONVERGED
    assert posterior.mismatch < 1e-6
    assert "rho" in posterior.held
    weights, labels = posterior.weights, posterior.labels
    asked = posterior.inclusion.mean()
    assert abs(asked / weights.rho - 1.0) > 1e-2, "the update would go on"
    there = SpikeSlab(float((asked * 60 + 0.1) / 60.2))
    beyond = solve(problem, there, labels, options=EPOptions(fallback=False), start=posterior)
    gained = beyond.log_evidence + there.log_belief() - posterior.log_evidence - weights.log_belief()
    assert beyond.status is not Status.CONVERGED or gained < 1e-3


@pytest.mark.parametrize("seed", [5, 9])
def test_twin_columns_are_learned_to_the_end_where_there_is_one(seed):
    """EP has many slow directions there: looking back ten steps it found no rest on the way, and rho was held."""
    posterior = solve(twins(seed), SpikeSlab(0.25), ThetaMixture(0.9), options=EPOptions(learn=("rho", "eta")))
    assert posterior.status is Status.CONVERGED
    assert posterior.held == ()
    assert posterior.n_iter < 1500


def first_state():
    """The first E-step of learning eta."""
    problem, _ = teacher_problem(20, 4.0, seed=0, eta=0.9)
    design = problem.signed()
    blocks = pair_of_blocks(SpikeSlab(0.25), ThetaMixture(0.9), design.shape)
    settled = ladder.settle(Primal(design), blocks, tol=1e-6, max_iter=500)
    return learning._appraised(settled, 5000, frozenset({"eta"}), parameters.em)


def proposed_move(state):
    return parameters.coordinates(state.proposal, state.names) - state.place


def test_moves_grow_where_acceleration_does_not_lead_up():
    """Where the evidence is all but flat M-steps of the same length would creep for ever."""
    state = first_state()
    wish, moves = state.wish, []
    for k in range(3):  # wishes that grow along the way: extrapolated, they vanish behind
        state = state._replace(memory=state.memory.seen(state.place + (k - 2.0) * wish, (1.0 + 0.1 * k) * wish, 4))
    for _ in range(3):
        state = learning._onward(state)
        moves.append(proposed_move(state))
    np.testing.assert_allclose(np.concatenate(moves) / wish, [2.0, 4.0, 8.0], rtol=1e-6)
    shorter = learning._taken_back(state, parameters.em)
    np.testing.assert_allclose(proposed_move(shorter), wish, rtol=1e-6)
    assert shorter.tight
    assert not shorter.held, "boldness was to blame"


@pytest.mark.parametrize("status", [Status.MAX_ITER, Status.CONVERGED])
def test_nothing_is_held_where_ep_only_almost_rests(status):
    """There it would be left without rest for good: learning goes back to the E-step before."""
    before = first_state()
    there = before.settled.state._replace(blocks=before.target)
    state = before._replace(settled=before.settled._replace(state=there), before=before, patient=True)
    after = learning._made_sure(state, lambda *a, **k: state.settled._replace(status=status), 1e-6, parameters.em)
    if status is Status.CONVERGED:
        assert after.held == {"eta"}
    else:
        assert not after.held
        np.testing.assert_allclose(after.place, before.place)
        np.testing.assert_allclose(proposed_move(after), 0.5 * before.wish)


def test_where_no_size_rests_learning_begins_at_the_densest():
    """And not where the weights fell into the trap."""
    state, ends = first_state(), iter([Status.MAX_ITER, Status.COLLAPSED])

    def rest(blocks, **options):
        there = state.settled.state._replace(blocks=blocks)
        return state.settled._replace(state=there, status=next(ends), trace=())

    names = frozenset({"rho"})
    kept, points = learning._along_path(rest, state.settled.state.blocks, names, parameters.em, 100)
    assert [point.status for point in points] == [Status.MAX_ITER, Status.COLLAPSED]
    assert kept.status is Status.MAX_ITER
    assert kept.state.blocks[0].prior.rho == pytest.approx(0.5)


@pytest.mark.parametrize("rho", [0.02, 0.9])
def test_tall_tables_need_no_path(rho):
    """The evidence has one peak, and a poor start does not matter."""
    problem, _ = teacher_problem(20, 40.0, seed=3, eta=0.9)
    posterior = solve(problem, SpikeSlab(rho), ThetaMixture(0.8), options=EPOptions(learn=("rho", "eta")))
    assert posterior.status is Status.CONVERGED
    assert posterior.path == posterior.held == ()
    assert_stationary(problem, posterior, ("rho", "eta"))
    near = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), options=EPOptions(learn=("rho", "eta")))
    assert posterior.weights.rho == pytest.approx(near.weights.rho, rel=2e-3)
    assert posterior.labels.eta == pytest.approx(near.labels.eta, rel=1e-3)


def test_on_tall_tables_learning_costs_no_more_than_knowing():
    """Out of core each factorisation is two passes over a file, and many rows tell early where the peak is."""
    problem, _ = teacher_problem(60, 100.0, seed=3, eta=0.9)
    options = EPOptions(learn=("rho", "eta"))
    learned = solve(problem, SpikeSlab(0.6), RobustProbit(0.8, 1.0), options=options)
    known = solve(problem, learned.weights, learned.labels)
    assert learned.status is known.status is Status.CONVERGED
    assert learned.n_iter <= known.n_iter


def test_no_value_is_learned_under_which_a_cavity_has_no_moments():
    """A slab bears a negative precision down to its own. On a real table of 82 x 12,600 lam became nan so."""
    blocks = (Block(slice(0, 2), SpikeSlab(0.01, 1.0)),)
    cavity = Gaussians(np.array([3e3, 0.1]), np.array([-2.0, 1.0]))  # the first needs lam > 0.5
    names = frozenset({"lam"})
    assert learning.improved(blocks, cavity, names, learning.em)[0].prior.lam < 0.5
    new, far = learning.taught(blocks, cavity, 0.0, names=names, tol=1e-3, heed=0.03)
    assert new[0].prior.lam == 1.0
    assert far == np.inf, "nor has it come to rest"


def test_where_labels_are_many_fewer_m_steps_lead_to_the_same_values(monkeypatch):
    blocks = (Block(slice(0, 500), RobustProbit(0.7, 1.0)),)
    rng = np.random.default_rng(0)
    cavity = Gaussians(rng.standard_normal(500) + 0.5, np.full(500, 0.5))
    steps = []
    monkeypatch.setattr(learning, "improved", lambda *a: (steps.append(a), parameters.improved(*a))[1])
    taught = partial(learning.taught, cavity=cavity, off=0.0, names=frozenset({"eta"}), tol=1e-4, heed=0.03)
    best, _ = taught(blocks)
    all_steps = len(steps)
    near, far = taught(blocks, enough=learning.ENOUGH)
    assert len(steps) - all_steps < all_steps
    assert far > 1.0
    while far:  # as visit by visit
        near, far = taught(near, enough=learning.ENOUGH)
    assert near[0].prior.eta == pytest.approx(best[0].prior.eta, rel=3e-4)


def test_where_learning_along_the_way_finds_no_rest_it_begins_without_it(monkeypatch):
    problem, _ = teacher_problem(20, 40.0, seed=3, eta=0.9)
    options = EPOptions(learn=("rho", "eta"))
    one = solve(problem, SpikeSlab(0.6), ThetaMixture(0.8), options=options)
    monkeypatch.setattr(learning, "taught", lambda blocks, cavity, off, **given: (blocks, np.inf))  # never content
    other = solve(problem, SpikeSlab(0.6), ThetaMixture(0.8), options=options)
    assert other.status is Status.CONVERGED
    assert other.n_iter > one.n_iter
    assert other.weights.rho == pytest.approx(one.weights.rho, rel=2e-3)


@pytest.mark.parametrize("max_iter", [40, 300])
def test_max_iter_bounds_learning_too(max_iter):
    """'Factorisations at most': those of the path and of every E-step together."""
    problem, _ = teacher_problem(60, 2.0, seed=3, eta=0.9)
    options = EPOptions(learn=("rho", "eta"), learn_tol=1e-12, max_iter=max_iter)
    posterior = solve(problem, SpikeSlab(0.4), ThetaMixture(0.8), options=options)
    assert posterior.n_iter <= max_iter


def wide_problem(seed, n_true, n_patterns):
    """1000 columns that share five factors; a few of them, of equal strength, make the labels."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n_patterns, 5))
    X = 0.7 * shared @ rng.standard_normal((5, 1000)) + rng.standard_normal((n_patterns, 1000))
    teacher = np.zeros(1000)
    teacher[rng.permutation(1000)[:n_true]] = rng.choice([-1, 1], n_true)
    return Problem.from_arrays(X, np.where(X @ teacher > 0, 1, -1)), teacher


WIDE = {
    "rho, 3 of 1000": (("rho",), ThetaMixture(0.95), 0, 3, 60),
    "rho, another 3": (("rho",), ThetaMixture(0.95), 1, 3, 60),
    "rho and eta": (("rho", "eta"), ThetaMixture(0.9), 0, 3, 60),
    "rho, 10 of 1000": (("rho",), ThetaMixture(0.95), 0, 10, 100),
    "rho and beta": (("rho", "beta"), Probit(1.0), 0, 10, 100),
    "rho and beta, 3": (("rho", "beta"), Probit(1.0), 1, 3, 60),
}


@pytest.mark.parametrize(("names", "labels", "seed", "n_true", "n_patterns"), WIDE.values(), ids=WIDE.keys())
def test_far_more_features_than_patterns(names, labels, seed, n_true, n_patterns):
    """Plain EM falls to no features or runs to all of them. The evidence of these problems is best at a few features
    (on the path it drops by 0.7 to 4 nats towards the dense end). Where the best density lies at the edge of what EP
    can settle at, learning stops short of the maximum and says so."""
    problem, teacher = wide_problem(seed, n_true, n_patterns)
    posterior = solve(problem, SpikeSlab(0.5), labels, options=EPOptions(learn=names, max_iter=1500))
    assert posterior.status in (Status.CONVERGED, Status.MAX_ITER)
    assert posterior.n_iter <= 1500
    assert posterior.mismatch < 1e-2
    assert 1.0 < posterior.weights.rho * 1000 < 60.0
    good = [point.log_evidence for point in posterior.path if point.status is Status.CONVERGED]
    assert posterior.log_evidence > max(good) - 0.1
    top = np.argsort(-posterior.inclusion)[: 2 * n_true]
    assert np.count_nonzero(teacher[top]) >= max(1, n_true // 4)


def test_learning_along_the_way_ends_where_em_does_and_sooner():
    """One update for each iteration instead of one for each rest: the same stationary point."""
    problem, _ = teacher_problem(n_weights=150, alpha=0.8, eta=0.9, seed=3)
    labels, posteriors = RobustProbit(0.8, beta=0.5, counts=(19.0, 1.0)), []
    for kind in ("em", "along"):
        options = EPOptions(learn=("eta",), learning=kind, fallback="proper", learn_tol=1e-4)
        posteriors.append(solve(problem, SpikeSlab(0.1), labels, options=options))
        assert posteriors[-1].status is Status.CONVERGED
    em, along = posteriors
    assert along.labels.eta == pytest.approx(em.labels.eta, abs=3e-4)
    assert abs(em.labels.eta - 0.8) > 0.01, "there was something to learn"
    assert along.n_iter < em.n_iter


def test_slopes_are_those_of_the_log_evidence():
    problem = probit_problem()
    weights, labels = SpikeSlab(0.2, 0.8), RobustProbit(0.9, beta=0.7)
    slopes = solve(problem, weights, labels, options=EPOptions(tol=1e-9)).slopes
    for name, prior in (("rho", weights), ("lam", weights), ("eta", labels), ("beta", labels)):
        ends = []
        for moved in (replace(prior, **{name: getattr(prior, name) + d}) for d in (1e-4, -1e-4)):
            pair = (moved, labels) if prior is weights else (weights, moved)
            ends.append(solve(problem, *pair, options=EPOptions(tol=1e-9)).log_evidence)
        assert slopes[name] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3, abs=1e-5), name


@pytest.mark.parametrize("tol", [1e-3, 0.05, 0.2])
def test_learning_along_learns_at_any_tolerance_and_from_a_start_at_rest(tol):
    problem, _ = teacher_problem(n_weights=120, alpha=0.5, eta=0.9, seed=1)
    weights, labels = SpikeSlab(0.1), RobustProbit(0.98, beta=0.5, counts=(19.0, 1.0))
    fixed = solve(problem, weights, labels, options=EPOptions(tol=1e-4, fallback="proper"))
    options = EPOptions(tol=tol, learn=("eta",), learning="along", fallback="proper", learn_tol=1e-3)
    for start in (None, fixed):
        posterior = solve(problem, weights, labels, options=options, start=start)
        assert posterior.status is Status.CONVERGED
        assert posterior.labels.eta < 0.97


def test_more_damping_that_is_asked_for_is_kept_on_tall_tables(monkeypatch):
    """There learning takes bolder steps by default."""
    problem, paces = probit_problem(n=5, alpha=30.0), []
    honest = ladder.step
    monkeypatch.setattr(ladder, "step", lambda *a, pace, **k: paces.append(pace.damping) or honest(*a, pace=pace, **k))
    solve(problem, SpikeSlab(0.3), Probit(1.5), options=EPOptions(learn=("rho",), damping=0.9))
    assert min(paces) >= 0.7, "that of the ladder's other rungs"
    paces.clear()
    solve(problem, SpikeSlab(0.3), Probit(1.5), options=EPOptions(learn=("rho",)))
    assert min(paces) < 0.5


def test_the_last_stage_names_what_was_kept_proper():
    """Weights that were kept proper on one rung are EP's own again on the next."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 400))
    X[:, 3] = X[:, 0] + 0.3 * rng.standard_normal(60)
    problem = Problem.from_arrays(X, np.where(X[:, :3] @ [2.0, -2.0, 1.0] > 0.0, 1.0, -1.0))
    kept = []
    options = EPOptions(tol=1e-4, learn=("eta",), fallback="proper", learn_tol=1e-3, max_iter=400)
    solve(problem, SpikeSlab(0.01), RobustProbit(0.95, 0.5), options=options, callback=lambda s: kept.append(s.blocks))
    posterior = solve(problem, SpikeSlab(0.01), RobustProbit(0.95, 0.5), options=options)
    assert kept[-1][0].proper == ("weights too" in posterior.trace[-1].stage)
    assert kept[-1][-1].proper


def test_an_answer_made_again_in_double_precision_keeps_the_name_of_its_stage(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 600))
    right = np.where(X[:, :2] @ [1.0, -1.0] > 0, 1.0, -1.0)
    problem = Problem.from_arrays(X, right * np.where(rng.random(60) < 0.9, 1, -1))
    monkeypatch.setattr(student, "SHARE", 0.0)
    monkeypatch.setattr(student, "SOUND", 1e-9)  # single precision never is
    options = EPOptions(tol=1e-4, fallback="proper", max_iter=300)
    posterior = solve(problem, SpikeSlab(0.003), RobustProbit(0.95, 0.5), options=options)
    assert posterior.status is Status.CONVERGED
    assert posterior.trace[-1].stage == "proper, weights too"


def test_a_step_of_nothing_stays_nothing_however_often_it_is_doubled():
    problem, _ = teacher_problem(40, 3.0, seed=3, eta=0.9)
    options = EPOptions(learn=("rho", "eta"), learning="gradient", rate=3e-3, max_iter=1500)
    posterior = solve(problem, SpikeSlab(0.4), ThetaMixture(0.8), options=options)
    assert 0.0 < posterior.weights.rho < 1.0
    assert posterior.status in (Status.CONVERGED, Status.MAX_ITER)
