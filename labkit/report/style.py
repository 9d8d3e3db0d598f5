"""The page's style sheet: one column of cards, light or dark as the reader's system says, plain on paper."""

from labkit.report.theme import DARK, LIGHT, variables

STYLE = f"""
:root {{ color-scheme: light dark; {variables(LIGHT)} --page: #f5f6f8; --soft: #f0f2f5; --good: #1a7f4b;
  --warn: #a05a00; --bad: #c0322b; }}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ {variables(DARK)} --page: #111317; --soft: #23272e; --good: #4fcf8f; --warn: #f0b24a; --bad: #ff7b72; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }}
main {{ max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }}
header {{ margin-bottom: 28px; }}
.eyebrow {{ margin: 0 0 10px; color: var(--muted); font-size: 13px; letter-spacing: .02em; }}
.eyebrow b {{ color: var(--ink); font-weight: 600; }}
h1 {{ margin: 0; max-width: 26em; font-size: 30px; line-height: 1.22; font-weight: 650; letter-spacing: -.015em;
  text-wrap: balance; overflow-wrap: anywhere; }}
.hypothesis {{ margin: 12px 0 0; max-width: 52em; color: var(--muted); overflow-wrap: anywhere; }}
h2 {{ margin: 40px 0 12px; font-size: 18px; font-weight: 650; letter-spacing: -.005em; }}
.card {{ background: var(--ground); border: 1px solid var(--grid); border-radius: 10px; padding: 18px 20px; }}
.answer {{ border-left: 4px solid var(--ink); border-radius: 3px 10px 10px 3px; }}
.answer p {{ margin: 0; max-width: 48em; font-size: 19px; line-height: 1.45; text-wrap: pretty;
  overflow-wrap: anywhere; }}
.answer .hypothesis {{ margin: 0 0 10px; font-size: 15px; }}
.answer ul {{ display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 14px 0 0; padding: 0; list-style: none;
  color: var(--muted); font-size: 13.5px; }}
.scroll {{ overflow-x: auto; padding: 6px 8px; }}
table {{ width: 100%; border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 7px; text-align: left; vertical-align: baseline;
  white-space: nowrap; }}
td {{ border-top: 1px solid var(--grid); }}
th {{ color: var(--muted); font-size: 12.5px; font-weight: 550; }}
.right {{ text-align: right; }}
td.wide {{ min-width: 10em; max-width: 24em; padding-left: 33px; text-indent: -26px; white-space: normal;
  overflow-wrap: anywhere; }}
td.verdict {{ min-width: 11em; max-width: 16em; white-space: normal; text-wrap: balance; }}
td.tally {{ min-width: 5.5em; white-space: normal; }}
td.changes {{ min-width: 17em; white-space: normal; overflow-wrap: anywhere; }}
a {{ color: inherit; text-decoration: underline; text-decoration-color: var(--muted); text-underline-offset: 2px; }}
.clear {{ font-weight: 650; }}
.faint {{ color: var(--muted); }}
.card > p.faint {{ margin: 10px 0 0; font-size: 13.5px; }}
code, pre {{ font: 12.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
pre {{ margin: 0; overflow-x: auto; }}
.swatch {{ display: inline-block; width: 18px; height: 8px; margin-right: 8px; vertical-align: 1px; }}
.legend {{ display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 0 0 12px; font-size: 13.5px;
  overflow-wrap: anywhere; }}
.card + .columns, .card + .figures, .figures + .columns {{ margin-top: 14px; }}
.figures {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 440px), 1fr)); gap: 14px; }}
figure {{ margin: 0; min-width: 0; break-inside: avoid; }}
figure.full {{ grid-column: 1 / -1; overflow-x: auto; }}
figure.full svg {{ min-width: 720px; }}
figure h3 {{ margin: 0 0 8px; font-size: 14.5px; font-weight: 600; }}
figure svg {{ display: block; width: 100%; height: auto; overflow: visible; }}
figure svg * {{ stroke-linejoin: round; stroke-linecap: butt; }}
figure svg text {{ font-family: inherit !important; font-variant-numeric: tabular-nums; }}
figcaption {{ margin-top: 8px; color: var(--muted); font-size: 12.5px; line-height: 1.45; }}
.notes {{ display: grid; grid-template-columns: max-content 1fr; gap: 8px 16px; margin: 0; align-items: baseline; }}
.notes dt {{ color: var(--warn); font-size: 12.5px; font-weight: 600; }}
.notes dt.diverged, .notes dt.failed, .notes dt.damaged {{ color: var(--bad); }}
.notes dd {{ margin: 0; overflow-wrap: anywhere; }}
.status {{ font-weight: 550; }}
.done {{ color: var(--good); }} .diverged, .failed {{ color: var(--bad);
  }} .running, .paused, .planned, .stopped, .pruned, .missing {{ color: var(--warn); }}
.pairs {{ display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; margin: 0; font-size: 14px; }}
.pairs dt {{ color: var(--muted); }}
.pairs dd {{ margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }}
.columns {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr)); gap: 14px; }}
.columns h2 {{ margin: 0 0 10px; font-size: 14.5px; }}
footer {{ margin-top: 32px; max-width: 62em; color: var(--muted); font-size: 12.5px; }}
@media (max-width: 760px) {{
  td.changes {{ min-width: 10em; }}
}}
@media (max-width: 640px) {{
  main {{ padding: 24px 14px 40px; }}
  h1 {{ font-size: 24px; }}
  .card {{ padding: 14px; }}
  .answer p {{ font-size: 17px; }}
  .scroll {{ padding: 4px 0; }}
  .notes {{ grid-template-columns: 1fr; gap: 0; }}
  .notes dd {{ margin-bottom: 10px; }}
}}
@page {{ margin: 14mm; }}
@media print {{
  :root {{ color-scheme: light; --page: #fff; }}
  body {{ font-size: 10pt; }}
  main {{ max-width: none; padding: 0; }}
  h1 {{ font-size: 20pt; }}
  h2 {{ margin: 20px 0 8px; font-size: 12pt; break-after: avoid; }}
  .answer p {{ font-size: 12pt; }}
  .card {{ padding: 10px 12px; border-color: #ccc; }}
  .pairs, .notes dd {{ font-size: 9pt; }}
  figure h3 {{ font-size: 10pt; }}
  figcaption, footer {{ font-size: 7.5pt; }}
  footer {{ max-width: none; }}
  .scroll {{ overflow: visible; }}
  .figures {{ grid-template-columns: 1fr 1fr; }}
  figure.full {{ overflow: visible; }}
  figure.full svg {{ min-width: 0; }}
  .legend {{ break-inside: avoid; break-after: avoid; }}
  tr, .answer, .notes {{ break-inside: avoid; }}
  table, code, pre {{ font-size: 7pt; }}
  th, td {{ padding: 3px 5px; font-size: inherit; }}
  td.wide {{ min-width: 0; padding-left: 29px; }}
  td.changes {{ min-width: 0; }}
  td.verdict {{ min-width: 9em; }}
  a {{ text-decoration: none; }}
}}
""".strip()
