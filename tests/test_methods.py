import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dilutron
from dilutron import METHODS, Problem, SpikeSlab, Theta, solve
from dilutron.posterior import Posterior
from tests.laws.lists import method_options
from tests.problems import teacher_problem


@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers_with_a_posterior(method):
    problem, _ = teacher_problem(20, 2.0)
    posterior = solve(problem, weights=SpikeSlab(0.25), labels=Theta(), method=method, options=method_options(method))
    assert isinstance(posterior, Posterior)
    assert posterior.method == method
    assert posterior.mean.shape == posterior.std.shape == (20,)
    assert isinstance(posterior.status, dilutron.Status)


def test_an_unknown_method_is_told_the_known_ones():
    with pytest.raises(ValueError, match=r"method must be one of \[.*'ep'.*\], got 'magic'"):
        solve(teacher_problem()[0], SpikeSlab(0.25), Theta(), method="magic")


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.parametrize("fails", [False, True])
def test_small_problems_use_one_thread_and_give_the_others_back(fails):
    if not blas_threads():
        pytest.skip("no BLAS with a thread pool")
    problem, _ = teacher_problem(20, 2.0)
    inside = []

    def callback(state):
        inside.append(blas_threads())
        if fails:
            raise KeyboardInterrupt

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert max(before) == 2
        if fails:
            with pytest.raises(KeyboardInterrupt):
                solve(problem, SpikeSlab(0.25), Theta(), callback=callback)
        else:
            solve(problem, SpikeSlab(0.25), Theta(), callback=callback)
        assert blas_threads() == before
    assert set(inside[0]) == {1}


def test_large_problems_keep_their_threads(monkeypatch):
    if not blas_threads():
        pytest.skip("no BLAS with a thread pool")
    seen = []
    monkeypatch.setitem(METHODS, "spy", lambda *args, **kwargs: seen.append(blas_threads()))
    rng = np.random.default_rng(0)
    problem = Problem.from_arrays(rng.standard_normal((1001, 1000)), np.where(rng.random(1001) < 0.5, 1, -1))
    with threadpool_limits(limits=2, user_api="blas"):
        solve(problem, SpikeSlab(0.25), Theta(), method="spy")
    assert max(seen[0]) == 2
