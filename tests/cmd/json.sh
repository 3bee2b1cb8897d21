# --json of every command is JSON with a version, whatever the outcome; names that are promised.
. tests/cmd/lib
[ -x "$py" ] || { echo "no $py"; exit 77; }
mkdir -p "$t/j"
j() {	# NAME COMMAND...: its JSON, without minding the exit code
	name=$1
	shift
	"$tcc" "$@" >"$t/j/$name.json" 2>"$t/err" || true
}
j compile compile "$digits" -o "$t/digits" --json
j bad_compile compile "$t/none.onnx" -o "$t/x" --json
j check check "$digits" --json
j run run "$digits" --input picture="$picture" --json
j run_program run "$t/digits" --input picture="$picture" --json
j verify verify --timeout 600 "$digits" models/mlp.onnx "$t/none" --json
j bench bench "$digits" --duration 0.05 --json
j bench_program bench "$t/digits" --duration 0.05 --json
j profile profile "$digits" --duration 0.05 --trace "$t/events" --json
j inspect inspect "$digits" --json -v
j inspect_program inspect "$t/digits" --json
j opt opt "$digits" -o "$t/x.ir" --json
j ops ops --json
j targets targets --json
j passes passes --json
j doctor doctor --json
"$tcc" inspect "$digits" --json="$t/j/file.json" >"$t/text"
grep -q '^kernels' "$t/text" || fail "no text beside --json=FILE"
"$py" - "$t/j" <<'PY'
import glob, json, sys
d = {f.split("/")[-1][:-5]: json.load(open(f)) for f in glob.glob(sys.argv[1] + "/*.json")}
assert len(d) == 17, sorted(d)
for name, doc in d.items():
    assert doc["version"] == 1, name
for name in ("bench", "bench_program"):
    for key in ("load_ms first_ms min_ms median_ms p90_ms p95_ms p99_ms h2d_ms exec_ms d2h_ms "
                "throughput").split():
        assert d[name][key] >= 0, key
    assert d[name]["min_ms"] <= d[name]["median_ms"] <= d[name]["p99_ms"]
for name in ("inspect", "inspect_program", "file"):
    assert d[name]["weight_bytes"] > 100000 and "arena_bytes" in d[name]
    assert d[name]["inputs"][0]["shape"] == ["batch", 1, 28, 28], d[name]["inputs"]
    assert len(d[name]["kernels"]) == d[name]["kernel_count"] > 0 and "precision" in d[name]
assert d["inspect"]["operators"]["Conv"] == 4 and d["inspect"]["buffers"]
assert d["inspect_program"]["manifest"]["target"] == d["compile"]["target"]
assert d["bad_compile"]["exit"] == 3 and d["bad_compile"]["messages"][0]["kind"] == "error"
assert d["check"]["ok"] and d["compile"]["artefacts"][0]["bytes"] > 1000
v = d["verify"]
assert [c["verdict"] for c in v["cases"]] == ["PASS", "PASS", "ERROR"] and v["failed"] == 1
assert d["run"]["outputs"][0]["shape"] == [1, 10]
assert {"time_us", "nodes", "flops", "bytes", "roofline_share", "limit"} <= set(d["profile"]["kernels"][0])
events = json.load(open(sys.argv[1] + "/../events"))["traceEvents"]
assert len(events) == len(d["profile"]["kernels"]) and all(e["dur"] > 0 for e in events)
ops = {o["onnx"]: o for o in d["ops"]["operators"]}
assert ops["Conv"]["targets"]["llvm"] and ops["Conv"]["since"] >= 11
assert any(t["name"] == "sm_80" and "cubin" in t["emit"] for t in d["targets"]["targets"])
assert d["passes"]["passes"][0]["name"] == "simplify" and d["passes"]["rules"][0]["class"] == "exact"
assert any(x["name"] == "cc" for x in d["doctor"]["tools"])
PY
