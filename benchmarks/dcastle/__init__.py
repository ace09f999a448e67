"""The experiment of dCASTLE's paper (Mohamed, Ghanem, Nagi 2020, section 6), repeated: Adult over several sites.

    python -m benchmarks.dcastle --figure out/dcastle.png

The 30,162 complete rows go round-robin to n sites, and their information loss is compared for centralised CASTLE, for
dCASTLE, and for sites that do not talk to each other: all three as printed and strict, strict dCASTLE twice, with boxes
shared from k persons on and from the paper's k/n on. As in the paper, dCASTLE has 25 clusters and the others 50, the
loss window is 100, the delay counts rows of a site (so with 10,000 and 8 sites nothing expires before the end, while
centralised rows expire), and of eleven columns those before and after the sensitive one are quasi-identifiers, in the
paper's order.

Losses are means over rows and attributes, and rows that are suppressed, dropped or left undecided count as 1. Engines
without messages are measured before the gate, which in paper mode would refuse rows that the paper publishes; strict
dCASTLE is measured behind it, by what all sites have published together.

Read `settings` (what is varied), `methods` (who is compared), `experiment` (how it is run), `report` and `figure`.
"""
