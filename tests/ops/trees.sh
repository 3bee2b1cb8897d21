#!/bin/sh
# Forests against a walk in Python: by intervals (trees of few leaves and of many, all kinds of conditions), by
# masks (more features than conditions on one), walked (too large for tables), lone leaves, NaN with and
# without missing_value_tracks_true, infinities, zeros of both signs, thresholds below which there is nothing.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, TensorProto as T

rng = np.random.default_rng(11)
HOLDS = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal,
         "BRANCH_GT": np.greater, "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal}
VALUES = np.array([0.0, -0.0, 0.5, -0.5, 1.0, 2.0, -3.0, np.inf, -np.inf], np.float32)


class Forest:
    def __init__(self, modes, targets, several, features=9, values=VALUES):
        self.features, self.modes, self.targets, self.several = features, modes, targets, several
        self.values = values
        self.rows, self.weights, self.trees = [], [], 0    # rows: tree, node, feature, value, mode, yes, no, missing

    def tree(self, leaves, chain=False):
        t, self.trees, number = self.trees, self.trees + 1, iter(range(10 ** 6))

        def node(n):
            me = next(number)
            at = len(self.rows)
            self.rows.append(None)
            if n == 1:
                self.rows[at] = (t, me, 0, 0.0, "LEAF", 0, 0, 0)
                own = rng.permutation(self.targets)[:2] if self.several else [t % self.targets]
                self.weights += [(t, me, int(k), float(rng.integers(-8, 8))) for k in own]
                return me
            left = 1 if chain else int(rng.integers(1, n))
            yes, no = node(left), node(n - left)
            self.rows[at] = (t, me, int(rng.integers(self.features)), float(rng.choice(self.values)),
                             str(rng.choice(self.modes)), yes, no, int(rng.integers(2)))
            return me
        node(leaves)

    def model(self, dtype):
        tree, node, feature, value, mode, yes, no, missing = zip(*self.rows)
        wt, wn, wi, w = zip(*self.weights)
        n = h.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=self.targets,
                        nodes_treeids=tree, nodes_nodeids=node, nodes_featureids=feature, nodes_values=value,
                        nodes_modes=mode, nodes_truenodeids=yes, nodes_falsenodeids=no,
                        nodes_missing_value_tracks_true=missing, target_treeids=wt, target_nodeids=wn,
                        target_ids=wi, target_weights=w)
        g = h.make_graph([n], "forest", [h.make_tensor_value_info("x", dtype, ["n", self.features])],
                         [h.make_tensor_value_info("y", T.FLOAT, ["n", self.targets])])
        return h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx.ml", 3)], ir_version=8)

    def run(self, x):
        nodes = {(r[0], r[1]): r for r in self.rows}
        weights = {}
        for t, n, k, w in self.weights:
            weights.setdefault((t, n), []).append((k, w))
        y = np.zeros((len(x), self.targets), np.float32)
        for i, row in enumerate(x):
            for t in range(self.trees):
                r = nodes[t, 0]
                while r[4] != "LEAF":
                    v = row[r[2]]
                    holds = HOLDS[r[4]](v, x.dtype.type(r[3])) or (np.isnan(v) and r[7])
                    r = nodes[t, r[5] if holds else r[6]]
                for k, w in weights[t, r[1]]:
                    y[i, k] += w
        return y


ORDERED = list(HOLDS)[:4]
few = Forest(ORDERED, 1, False)
for n in (1, 2, 5, 7, 12, 27, 32, 33, 40, 64, 65, 90) + (6,) * 20:
    few.tree(n)
classes = Forest(["BRANCH_LEQ"], 3, False, 20)
for n in rng.integers(1, 30, 70):
    classes.tree(int(n))
several = Forest(["BRANCH_LT", "BRANCH_GT"], 4, True, 40)
for n in rng.integers(1, 50, 21):
    several.tree(int(n))
equal = Forest(list(HOLDS), 2, False)       # no thresholds: no masks
for n in rng.integers(1, 30, 20):
    equal.tree(int(n))
large = Forest(ORDERED, 1, False)           # many leaves, and one that is deeper than the others
for n in (900, 1200, 70):
    large.tree(n)
large.tree(80, chain=True)
wide = Forest(ORDERED, 1, False, 3000)      # few conditions on a feature: masks
for n in (1, 31, 33, 64, 70) * 8:
    wide.tree(n)
huge = Forest(ORDERED, 2, False)            # tables would be too large: walked
huge.tree(20000)
fine = Forest(ORDERED, 1, False, 2, values=np.round(rng.standard_normal(700), 3).astype(np.float32))
for n in (300, 300, 200):                   # many cuts of a feature
    fine.tree(n)
for name, f, dtype in (("few", few, T.FLOAT), ("double", few, T.DOUBLE), ("classes", classes, T.FLOAT),
                       ("several", several, T.FLOAT), ("equal", equal, T.FLOAT), ("large", large, T.FLOAT),
                       ("wide", wide, T.FLOAT), ("huge", huge, T.FLOAT), ("fine", fine, T.FLOAT)):
    onnx.save(f.model(dtype), f"{sys.argv[1]}/{name}.onnx")
    for rows in (1, 3, 37):
        x = rng.standard_normal((rows, f.features)).astype(np.float64 if dtype == T.DOUBLE else np.float32)
        special = rng.random(x.shape) < 0.4
        x[special] = rng.choice(np.concatenate([VALUES, [np.nan], f.values[:99]]), special.sum())
        np.savez(f"{sys.argv[1]}/{name}{rows}.npz", x=x, y=f.run(x))
PY
for m in few double classes several equal large wide huge fine; do
	"$tcc" compile "$t/$m.onnx" --emit ir --stage tensor -o "$t/$m.ir" || fail "no dump"
	case $m in
	huge) grep -q 'iter(' "$t/$m.ir" || fail "$m is not walked" ;;
	wide | several) grep -q ' ^ ' "$t/$m.ir" || fail "$m has no masks" ;;
	*) grep -q 'and(' "$t/$m.ir" && ! grep -q ' ^ ' "$t/$m.ir" || fail "$m has no intervals" ;;
	esac
	for how in native/1 native/37 x86-64-v3/37 c/3; do
		"$tcc" verify "$t/$m.onnx" --target "${how%/*}" --data "$t/$m${how#*/}.npz" --rtol 1e-6 --atol 1e-6 ||
			fail "$m differs: $how rows"
	done
done
