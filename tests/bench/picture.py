"""The speed-ups as bars on a logarithmic scale, one picture (SVG)."""
import math
from xml.sax.saxutils import escape

COLOURS = ["#4878a8", "#d08040", "#60a060", "#9060a0"]
LEFT, UNIT, BAR, LEAST, MOST = 200, 110, 9, 1 / 8, 32


def place(v):
    return LEFT + UNIT * (math.log2(min(max(v, LEAST), MOST)) - math.log2(LEAST))


def bars(peers, threads, done):
    """-> (name, [(label's place, speed-up)])"""
    for name, m in done.items():
        for number, s in m.get("sets", {}).items():
            found = [(i * len(peers) + k, run[p]["speedup"])
                     for i, run in enumerate(s["runs"]) for k, p in enumerate(peers)
                     if "speedup" in run.get(p, {})]
            yield f"{name}/{number}", found


def write_picture(path, peers, threads, done):
    rows = list(bars(peers, threads, done))
    kinds = [f"{p}, {t} thread(s)" for t in threads for p in peers]
    step = BAR * max(len(kinds), 1) + 8
    width, height = place(MOST) + 20, 60 + step * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
           'font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, kind in enumerate(kinds):
        out.append(f'<rect x="{10 + 190 * i}" y="8" width="10" height="10" '
                   f'fill="{COLOURS[i % 4]}"/><text x="{24 + 190 * i}" y="17">faster than '
                   f'{escape(kind)}</text>')
    for e in range(int(math.log2(LEAST)), int(math.log2(MOST)) + 1):
        x = place(2.0 ** e)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="42" y2="{height - 10}" '
                   f'stroke="{"black" if e == 0 else "#ccc"}"/>'
                   f'<text x="{x:.1f}" y="38" text-anchor="middle">{2.0 ** e:g}</text>')
    for r, (name, found) in enumerate(rows):
        y = 48 + step * r
        out.append(f'<text x="{LEFT - 8}" y="{y + step / 2}" text-anchor="end">{escape(name)}</text>')
        for at, v in found:
            a, b = sorted((place(1), place(v)))
            out.append(f'<rect x="{a:.1f}" y="{y + BAR * at}" width="{b - a:.1f}" '
                       f'height="{BAR - 1}" fill="{COLOURS[at % 4]}"><title>{escape(name)}, '
                       f'{escape(kinds[at])}: {v:.2f}</title></rect>')
    out.append("</svg>")
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n")
