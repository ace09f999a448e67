"""How the report looks, on a screen, on a phone, in grey and on A4."""

CSS = """
:root { color-scheme: light; }
body { margin: 0; color: #22303c; background: #fff; font: 16px/1.5 system-ui, "Segoe UI", Arial, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; padding-bottom: .2rem; border-bottom: 1px solid #9aa5b1; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
p, blockquote { margin: 0 0 .7rem; }
blockquote { padding: .6rem 1rem; border-left: 4px solid #9aa5b1; background: #f4f6f8; }
.summary { font-size: 1.1rem; font-weight: 600; }
.about { color: #465462; }
article { margin: .8rem 0; padding: .6rem .9rem; border: 1px solid #cdd5dc; border-left: 5px solid #9aa5b1; }
article.failed { border: 2px solid #22303c; border-left-width: 10px; }
article.warning { border-left: 5px double #22303c; }
article.not-checked { border-style: dashed; }
.badge { display: inline-block; padding: 0 .45rem; border: 1px solid #22303c; border-radius: .7rem; font-size: .82rem;
  font-weight: 600; white-space: nowrap; }
.badge.failed { color: #fff; background: #22303c; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.badge.not-checked { border-style: dashed; font-weight: 400; }
.tally { list-style: none; display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; margin: 0 0 .7rem; padding: 0; }
.wide { max-width: 100%; overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; margin: 0 0 .4rem; }
th, td { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { min-width: 6.5rem; font-weight: 400; color: #465462; }
figure { margin: 1.2rem 0; }
img { max-width: 100%; height: auto; }
figcaption { color: #465462; font-size: .92rem; }
dt { font-weight: 600; }
dd { margin: 0 0 .5rem 1.2rem; }
details { font-size: .92rem; }
summary { color: #465462; cursor: pointer; }
a { color: inherit; }
.command { padding: .6rem; background: #f4f6f8; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
@media print {
  @page { size: A4; margin: 18mm; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  article, figure, tr, dd, dt { break-inside: avoid; }
  h2, h3, dt, .about { break-after: avoid; }
  .wide { overflow: visible; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
