"""The look of a page: one style sheet, light and dark, wide and narrow."""

from solfa.ui.html.colours import css_gradient

_SHEET = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --card: #ffffff; --ink: #22202a; --quiet: #6a6674; --line: #e4e0e6; --accent: #8a3f7c;
  --alarm: #a3322b;
  --text: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  --display: ui-serif, "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #141218; --card: #1c1a22; --ink: #ebe8ee; --quiet: #a09aab; --line: #322e3a; --accent: #d693c8;
    --alarm: #f0928a;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 var(--text);
  -webkit-text-size-adjust: 100%; }
main { max-width: 68rem; margin: 0 auto; padding: 3.5rem 1.5rem 5rem; }
h1, h2 { font-family: var(--display); font-weight: 500; line-height: 1.15; letter-spacing: -0.01em;
  text-wrap: balance; }
h1 { font-size: clamp(1.9rem, 5vw, 2.8rem); margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.5rem; margin: 3.5rem 0 1rem; }
h3 { font-size: 1rem; font-weight: 600; margin: 0; overflow-wrap: anywhere; }
h4 { font-size: .8rem; font-weight: 600; margin: 0 0 .4rem; color: var(--quiet); }
p { margin: 0; }
figure { margin: 0; min-width: 0; }
.lead span { white-space: nowrap; }
.lead { margin: -.6rem 0 1.1rem; }
figcaption, .quiet { color: var(--quiet); font-size: .85rem; }
.subtitle { color: var(--quiet); margin-top: .6rem; font-size: 1.05rem; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(7.8rem, 1fr)); gap: 1.5rem 1.25rem;
  margin: 2.2rem 0 0;
  padding: 1.5rem 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
.facts div { display: flex; flex-direction: column; }
.facts dt { color: var(--quiet); font-size: .82rem; }
.facts dd { margin: 0; font-size: 1.4rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.facts small { display: block; color: var(--quiet); font-size: .8rem; line-height: 1.35; margin-top: .2rem; }
.details { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.25rem; margin: 1.25rem 0 0;
  font-size: .88rem; }
.details dt { color: var(--quiet); }
.details dd { margin: 0; font-family: var(--mono); font-size: .82rem; overflow-wrap: anywhere; align-self: center; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1.4rem 1.5rem 1.5rem;
  margin: 0 0 1.5rem; }
.card header { display: flex; flex-wrap: wrap; justify-content: space-between; gap: .1rem 1.5rem; }
.card header h3 { font-family: var(--mono); font-size: .92rem; }
.card header p { font-variant-numeric: tabular-nums; }
.caption { font-family: var(--display); font-size: 1.15rem; margin: .4rem 0 0; overflow-wrap: anywhere; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.5rem; margin-top: 1.1rem; }
.pair.single { grid-template-columns: minmax(0, 1fr); }
.plot { position: relative; padding-left: 2.1rem; }
.plot img { display: block; width: 100%; height: 11rem; border-radius: 3px; image-rendering: auto; }
.single .plot img { height: 14rem; }
.plot .khz { position: absolute; left: 0; width: 1.75rem; text-align: right; transform: translateY(50%); }
.khz, .axis, .levels { color: var(--quiet); font-size: .72rem; line-height: 1; font-variant-numeric: tabular-nums; }
.axis { position: relative; height: 1.35rem; padding-top: .35rem; }
.plotted .axis { margin-left: 2.1rem; }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.axis span:first-child { transform: none; }
.axis span.end { transform: translateX(-100%); }
audio { display: block; width: 100%; height: 2.5rem; margin: .3rem 0 .35rem; }
.array { margin-top: 1.1rem; }
.array img { display: block; width: 100%; border-radius: 3px; image-rendering: pixelated; }
.array figcaption { margin-top: .35rem; }
.scores { margin-top: .9rem; font-size: .88rem; color: var(--quiet); }
.scores b, .measure b { font-weight: 600; color: var(--ink); font-variant-numeric: tabular-nums; }
details { margin-top: .9rem; font-size: .88rem; }
summary { cursor: pointer; color: var(--quiet); width: max-content; }
.key { display: inline-block; width: 7rem; height: .6rem; border-radius: 2px; vertical-align: baseline;
  margin: 0 .35rem; background: GRADIENT; }
.chart { border-bottom: 1px solid var(--line); height: 5.5rem; }
.chart.tall { height: 10rem; }
.chart.named { margin-bottom: 1.25rem; }
.bars { display: block; width: 100%; height: 100%; fill: var(--accent); }
.bars .faint { fill: var(--quiet); opacity: .55; }
.bars .band { fill: var(--accent); opacity: .45; }
.bars .mean { fill: var(--ink); stroke: var(--ink); stroke-width: 1.2px; vector-effect: non-scaling-stroke; }
.leveled { display: grid; grid-template-columns: 3.2rem 1fr; }
.levels { position: relative; }
.levels span { position: absolute; right: .6rem; transform: translateY(50%); }
.latents figcaption { margin-top: .6rem; padding-left: 3.2rem; }
.multiples { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1.75rem 1.75rem; }
.multiples figure:only-child { grid-column: 1 / -1; }
.multiples figure:only-child .chart { height: 10rem; }
.multiples h3 { font-size: .85rem; margin-bottom: .5rem; }
.measure { display: inline-block; margin-right: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th { text-align: left; font-weight: 600; color: var(--quiet); font-size: .82rem; }
th, td { padding: .55rem 1.25rem .55rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: break-word; font-variant-numeric: tabular-nums; }
td:first-child { font-family: var(--mono); font-size: .82rem; min-width: 10rem; }
td:first-child, td:nth-child(2):last-child { overflow-wrap: anywhere; }
.alarm { color: var(--alarm); }
footer { margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--quiet);
  font-size: .82rem; overflow-wrap: anywhere; }
@media (max-width: 44rem) {
  main { padding: 2rem 1rem 3rem; }
  .pair { grid-template-columns: minmax(0, 1fr); gap: 1.25rem; }
  .card { padding: 1.1rem 1rem 1.2rem; }
  .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.1rem 1rem; }
  .facts dd { font-size: 1.2rem; }
  .details { grid-template-columns: 1fr; gap: 0; }
  .details dd { margin-bottom: .6rem; }
  h2 { margin-top: 2.5rem; }
  .lead span { white-space: normal; }
}
@media print { .card, figure { break-inside: avoid; } audio { display: none; } }
"""


def style_sheet() -> str:
    """Return the style sheet with the colour map's gradient filled in."""
    return _SHEET.replace("GRADIENT", css_gradient()).strip()
