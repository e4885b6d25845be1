"""A study with a known truth: 120 samples, 200 genes in blocks of four near copies, and six labels that are wrong."""

from study import TRUE, study

from dilutron import EPClassifier

X, y, wrong = study(seed=5)
model = EPClassifier().fit(X, y)
print(f"{model.n_features_likely_} genes likely, {model.eta_:.0%} of the labels taken for right\n")

print("gene  P(matters)  coefficient, 90 % if it matters")
low, high = model.coef_interval(0.9)
for gene in model.selected(n_features_to_select=6):
    mark = " <- true" if gene in TRUE else ""
    span = f"{model.coef_[0, gene]:+.2f}  [{low[0, gene]:+.2f}, {high[0, gene]:+.2f}]"
    print(f"{gene:4d}  {model.inclusion_proba_[gene]:10.2f}  {span}{mark}")

print("\ngroups: P(one of these matters)")
for group in model.feature_groups(X, y, n_groups=5):
    mark = " <- true" if set(group.members.tolist()) & TRUE.keys() else ""
    print(f"{group.inclusion:.2f}  genes {sorted(group.members.tolist())}{mark}")

print(f"\nlabels to look at again ({len(wrong)} were turned over)")
suspects = model.suspect_labels(fdr=0.3)
for row, probability, given, suggested in zip(*suspects, strict=True):
    mark = " <- turned over" if row in wrong else ""
    print(f"sample {row:3d}: {given}, rather {suggested} (P = {probability:.2f}){mark}")
