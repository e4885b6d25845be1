"""All pictures of a run, in the order of the page."""

from __future__ import annotations

from dilutron.report.course_pictures import sizes, trace
from dilutron.report.curves import Picture
from dilutron.report.feature_pictures import heat_map, inclusion, intervals
from dilutron.report.reading import RunFolder
from dilutron.report.sample_pictures import calibration, label_review, roc_curves


def pictures(run: RunFolder) -> list[Picture]:
    """All that the run has data for, in the order of the page."""
    kinds = (inclusion, intervals, heat_map, label_review, roc_curves, calibration, sizes, trace)
    return [picture for kind in kinds if (picture := kind(run)) is not None]
