"""
Colon tissue: which genes, how sure, which samples
==================================================

Alon et al. (1999) measured 2000 genes in 62 samples of colon tissue, tumour and normal. Later work suspects
that nine of the samples are mislabelled. Here one fit is asked for the genes, for its certainty, and for the
labels that it doubts. It is told nothing of the suspects; but this table was at hand when dilutron's defaults
were chosen, so take it as an illustration, not as a test. The data are not part of dilutron: ``python
examples/colon.py FOLDER`` reads ``colon_alon.npz`` from that folder, and says what it needs where the file is
absent. What it printed and drew:

.. literalinclude:: ../../examples/colon.txt
   :language: none

.. image:: ../../examples/colon.png
   :alt: Inclusion probabilities and intervals of the fifteen most probable genes, the 25 most doubted labels with the
         published suspects marked, and the weights of the expected sizes
   :width: 100%

- **Genes.** No gene stands out. The most probable ones matter with less than one chance in five; if they do, the
  sign of the coefficient is clear, but that is all. Many genes rise and fall together, and 62 samples cannot tell
  which of them matter. The list is an order in which to look, not a finding.
- **Groups.** A group of hundreds of genes holds one that matters almost for sure, but so do as many genes taken
  at random. Compare the two columns: only where the first is well above the second do the data say something
  about the group.
- **How many.** The weights are spread over more than one order of magnitude. The data allow three genes as well
  as a hundred, and the fit averages over all of them.
- **Labels.** This is where the fit is of use. Its list of the most doubted labels is nearly the published one.
  Yet only one label is rather wrong than right, so a strict rule such as ``suspect_labels(fdr=0.1)`` lists none,
  and says so. Doubted labels are for review at the bench. Nothing was dropped or changed.
- **Accuracy.** In cross-validation nearly all labels that are not predicted are published suspects. If these
  are wrong labels, the accuracy is understated; nobody knows for sure, so the figure stays that of all samples.
  The folds are one split of 62 samples, and another would differ by a few.
"""

# sphinx_gallery_thumbnail_path = '../examples/colon.png'

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from dilutron import EPClassifier

# %%
# The data
# --------

ABSENT = """There is no colon_alon.npz in {}.
The data are not part of dilutron: give their folder as an argument or in DILUTRON_DATA.
The file holds X (62 x 2000, raw), y (1: tumour), feature_names, sample_names and suspect (True for published ones);
X and y are those of data/alon.RData in github.com/ramhiser/datamicroarray."""

beside = Path(__file__).resolve().parents[2] / "shared" / "data"  # beside the project
options = argparse.ArgumentParser()
options.add_argument("folder", nargs="?", type=Path, default=Path(os.environ.get("DILUTRON_DATA", beside)))
options.add_argument("--figure", help="file for the picture")
given = options.parse_args()
if not (given.folder / "colon_alon.npz").is_file():
    sys.exit(ABSENT.format(given.folder))

data = np.load(given.folder / "colon_alon.npz")
X, y = np.log10(data["X"]), np.where(data["y"] == 1, "tumour", "normal")
genes, samples, published = data["feature_names"], data["sample_names"], data["suspect"]

# %%
# The fit, and what it says
# -------------------------

model = EPClassifier().fit(X, y)

print("How many genes? The weight of each expected size:")
for tried in model.path_:
    print(f"{tried.size:6.0f}  {tried.weight:.3f}  {'#' * round(40 * tried.weight)}".rstrip())
print(f"typically {model.n_features_likely_}; a gene taken at random matters with P = {model.rho_:.2f}\n")

print("Which genes?    P(matters)  coefficient per standard deviation, 90 % if it matters")
low, high = model.coef_interval(0.9, standardized=True)
top = model.selected(n_features_to_select=15)
for gene in top:
    span = f"{model.coef_standardized_[0, gene]:+.2f}  [{low[0, gene]:+.2f}, {high[0, gene]:+.2f}]"
    print(f"{genes[gene]:14s}  {model.inclusion_proba_[gene]:10.2f}  {span}")

print("\nGroups of correlated genes: P(one of them matters), and P for as many genes taken at random")
for group in model.feature_groups(X, y, n_groups=6):
    others = f" and {len(group.members) - 1} more" if len(group.members) > 1 else ""
    print(f"{group.inclusion:.2f}  {group.prior:.2f}  {genes[group.members[0]]}{others}")

doubt = model.label_error_proba_
order = model.suspect_labels(n_labels=len(y)).rows
print("\nWhich labels? The nine to look at first:")
for row in order[:9]:
    mark = "  <- published suspect" if published[row] else ""
    print(f"{samples[row]:4s}  {y[row]}  P(wrong) = {doubt[row]:.2f}{mark}")
auc = roc_auc_score(published, doubt)
print(f"{published[order[:9]].sum()} of the {published.sum()} published suspects are among them; AUC {auc:.3f}")

folds = StratifiedKFold(5, shuffle=True, random_state=0)
proba = cross_val_predict(EPClassifier(), X, y, cv=folds, method="predict_proba")
right = model.classes_[proba.argmax(axis=1)] == y
sure = proba.max(axis=1) > 0.8
print(
    f"\nHow well? In five folds {right.sum()} of {len(y)} labels are predicted, accuracy {right.mean():.3f},", end=" "
)
print(f"and {right[sure].sum()} of the {sure.sum()} where P > 0.8")
print(f"{published[~right].sum()} of the {np.sum(~right)} others are published suspects: {', '.join(samples[~right])}")

# %%
# The picture
# -----------

if given.figure:
    from matplotlib.figure import Figure

    blue, orange = "#0072B2", "#D55E00"
    figure = Figure(figsize=(8.4, 7.0), layout="constrained")
    (likely, size), (errors, weights) = figure.subplots(2, 2)

    places = np.arange(len(top))[::-1]
    likely.barh(places, model.inclusion_proba_[top], color=blue, height=0.65)
    likely.axvline(model.rho_, color="0.3", linestyle="--", linewidth=1)
    likely.set_yticks(places, genes[top])
    likely.set_xlim(0, 1)
    likely.text(model.rho_ + 0.13, 0, "dashed: an average gene", va="center", fontsize=8, color="0.3")
    likely.set(xlabel="probability that it matters", title="Which genes")

    size.hlines(places, low[0, top], high[0, top], color=blue, linewidth=2)
    size.plot(model.coef_standardized_[0, top], places, "o", color=orange, markersize=5)
    size.axvline(0, color="0.3", linewidth=0.8)
    size.set_yticks(places, [])
    size.set_ylim(likely.get_ylim())
    size.set(xlabel="coefficient per standard deviation", title="Mean (dot), and 90 % if it matters (bar)")

    first = order[:25]
    for look, mark, label in (("D", published[first], "published suspect"), ("o", ~published[first], "other sample")):
        color, ranks = (orange if look == "D" else blue), np.flatnonzero(mark)
        errors.vlines(ranks, 0, doubt[first][mark], color=color, linewidth=1.5)
        errors.plot(ranks, doubt[first][mark], look, color=color, markersize=6, label=label)
    errors.axhline(0.5, color="0.3", linestyle="--", linewidth=1)
    errors.text(24.4, 0.51, "above: rather wrong than right", ha="right", fontsize=8, color="0.3")
    errors.set_xticks(range(25), samples[first], rotation=90)
    errors.set_ylim(0, max(0.7, 1.1 * doubt.max()))
    errors.legend(frameon=False, fontsize=9, loc="center right")
    errors.set(xlabel=f"the 25 most doubted of {len(y)} samples", ylabel="probability", title="Which labels to look at")

    weights.bar(range(len(model.path_)), [tried.weight for tried in model.path_], color=blue, width=0.65)
    weights.set_xticks(range(len(model.path_)), [f"{tried.size:.0f}" for tried in model.path_])
    weights.set(xlabel="genes expected to matter", ylabel="weight", title="How many genes")
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.title.set_fontsize(10)
    figure.savefig(given.figure, dpi=120)
