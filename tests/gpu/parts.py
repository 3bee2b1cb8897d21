"""What the tests of this folder that come in parts share."""


def tally(parts):
    """Prints what was wrong and the counts; a part yields (name, list of faults). -> exit code"""
    ok = bad = 0
    for part in parts:
        for name, faults in part:
            ok, bad = ok + (not faults), bad + bool(faults)
            if faults:
                print(f"{name}: {', '.join(faults)}")
    print(f"{ok} passed, {bad} failed, 0 skipped")
    return 1 if bad else 0
