"""Result of a game in words: text for a terminal, and findings for the HTML report."""

from collections.abc import Iterator

from castleguard.judge.attack.membership_game import CanaryEvidence, Verdict
from castleguard.judge.game.game import Judged, Played
from castleguard.judge.report.findings import Audit, Finding, Section

NOT_PROVED = (
    "Not refuted is not proved: the game tries a few canaries, simple events and a limited number of runs. Only the "
    "proof of a claim shows that it holds; the game can only show that it does not."
)
NO_CLAIM = "no differential privacy is claimed"


def text_of(played: Played) -> str:
    """Result as lines of text."""
    return "\n".join(_lines(played))


def audit_of(played: Played, *, policy: str) -> Audit:
    """Result as an audit. `policy`: description of the policy."""
    rows = f"{played.rows:,} {'made-up rows' if played.made_up else 'rows of the given data'}"
    return Audit(
        subject={
            "policy": policy,
            "neighbouring streams": played.neighbours.sentence,
            "background": rows,
            "runs": f"{played.runs:,} on each of the two streams of every canary, half of them to choose the event",
        },
        promise=played.statement,
        sections=(
            Section(
                id="claims",
                title="Is a claim of differential privacy false?",
                about="A claim of differential privacy limits how well an observer of the output can tell whether a "
                "row was in the input. This can be tested: a conspicuous row (a canary) is put into a stream in many "
                "runs, and left out in as many. If the outputs can be distinguished better than the claim allows, the "
                "claim is false.",
                findings=tuple(_claim_finding(played, judged) for judged in played.judged) + _without_claim(played),
            ),
            Section(
                id="canaries",
                title="What each canary shows",
                about="Each canary is a different kind of conspicuous row. The event that distinguishes the streams is "
                "chosen in one half of the runs and counted in the other.",
                findings=tuple(_canary_finding(played, found) for found in _shown(played).findings),
            ),
            Section(
                id="reach",
                title="Limits of this test",
                about="A test of this kind can show that a claim is false. It cannot show that one is true.",
                findings=(_reach(played),),
            ),
        ),
    )


def _lines(played: Played) -> Iterator[str]:
    yield "The policy states:"
    yield f"  {played.statement}"
    yield ""
    yield (
        f"Neighbours: {played.neighbours.sentence}. Background: {played.rows:,} "
        f"{'made-up' if played.made_up else 'given'} rows. {len(played.found.findings)} canaries, {played.runs:,} runs "
        f"on each of their two streams."
    )
    if played.own is None:
        yield ""
        yield f"the policy itself: {NO_CLAIM}"
        yield from _found_lines(played, played.found)
    for judged in played.judged:
        yield ""
        yield judged.stated.sentence(refuted=judged.verdict.refuted)
        yield from _found_lines(played, judged.verdict)
        if judged.verdict.refuted and not judged.stated.own:
            yield "  This is not the policy's own claim, which is judged separately."
    yield ""
    yield from _table(_shown(played))
    yield ""
    yield NOT_PROVED


def _found_lines(played: Played, verdict: Verdict) -> Iterator[str]:
    yield f"  {_bounds(verdict)}"
    if verdict.epsilon or verdict.dp_delta:
        yield f"  strongest evidence: {_counted(played, verdict.worst)}"
    else:
        yield "  no canary distinguished the streams"


def _bounds(verdict: Verdict) -> str:
    claim = verdict.claim
    return (
        f"epsilon >= {verdict.epsilon:.2f} at delta {claim.dp_delta:.3g}, delta >= {verdict.dp_delta:.3g} at epsilon "
        f"{claim.epsilon:.4g}, with {100 * verdict.confidence:g} % confidence; this number of runs can show an epsilon "
        f"of up to {verdict.ceiling:.2f}"
    )


def _counted(played: Played, found: CanaryEvidence) -> str:
    other = "with the other values" if played.neighbours.replaced else "without it"
    return (
        f"{found.canary} ({played.event(found)}: in {found.seen:,} of {found.tested:,} runs with it, in "
        f"{found.seen_other:,} {other})"
    )


def _table(verdict: Verdict) -> Iterator[str]:
    yield f"{'canary':<26}{'epsilon >=':>11}{'delta >=':>10}{'seen':>9}{'other':>9}{'of':>9}"
    for each in verdict.findings:
        yield (
            f"{each.canary:<26}{each.epsilon:>11.2f}{each.dp_delta:>10.3f}{each.seen:>9,}{each.seen_other:>9,}"
            f"{each.tested:>9,}"
        )


def _shown(played: Played) -> Verdict:
    """Verdict whose canaries are shown: that of the last claim, which is the boldest."""
    return played.judged[-1].verdict if played.judged else played.found


def _claim_finding(played: Played, judged: Judged) -> Finding:
    verdict, stated = judged.verdict, judged.stated
    if not verdict.refuted:
        status, words = "passed", f"The claim was not refuted: {_bounds(verdict)}. {NOT_PROVED}"
    elif stated.own:
        worst = _counted(played, verdict.worst)
        status, words = "failed", f"The claim is REFUTED: {_bounds(verdict)}. Strongest evidence: {worst}."
    else:
        status = "warning"
        words = (
            f"The claim is REFUTED: {_bounds(verdict)}. Strongest evidence: {_counted(played, verdict.worst)}. It is "
            f"not the policy's own claim, and must not be relied on."
        )
    return Finding(
        id="own-claim" if stated.own else "other-claim",
        title=f"Claimed by {stated.whose}: {stated.claim}",
        status=status,  # type: ignore[arg-type]
        sentence=words,
        figures={
            "epsilon claimed": stated.claim.epsilon,
            "delta claimed": stated.claim.dp_delta,
            "epsilon at least": verdict.epsilon,
            "delta at least": verdict.dp_delta,
            "highest epsilon that could be proved": verdict.ceiling,
        },
    )


def _without_claim(played: Played) -> tuple[Finding, ...]:
    if played.own is not None:
        return ()
    seen = f" Strongest evidence: {_counted(played, played.found.worst)}." if played.found.refuted else ""
    finding = Finding(
        id="no-claim",
        title="The policy's own claim",
        status="not checked",
        sentence=f"Nothing can be refuted, because {NO_CLAIM}. Bounds: {_bounds(played.found)}.{seen}",
        figures={"epsilon at least": played.found.epsilon, "delta at least": played.found.dp_delta},
    )
    return (finding,)


def _canary_finding(played: Played, found: CanaryEvidence) -> Finding:
    claim = _shown(played).claim
    shows = found.epsilon > 0 or found.dp_delta > 0
    beyond = found.epsilon > claim.epsilon or found.dp_delta > claim.dp_delta
    if not shows:
        result = "were not distinguished"
    elif not played.judged:
        result = "can be distinguished"
    else:
        result = f"can be distinguished{' better than' if beyond else ', but no better than'} {claim} allows"
    return Finding(
        id=f"canary-{found.canary.replace(' ', '-')}",
        title=found.canary.capitalize(),
        status="warning" if beyond else "passed",
        sentence=f"The two streams {result}. Event: {played.event(found)}.",
        figures={
            "seen in runs with it": found.seen,
            "seen in the other runs": found.seen_other,
            "runs of either kind": found.tested,
            "epsilon at least": found.epsilon,
            "delta at least": found.dp_delta,
        },
    )


def _reach(played: Played) -> Finding:
    verdict = _shown(played)
    return Finding(
        id="ceiling",
        title="What this number of runs can show",
        status="not checked",
        sentence=f"With {verdict.worst.tested:,} test runs on each stream, the game cannot show an epsilon above "
        f"{verdict.ceiling:.2f}, and cannot detect a leak that occurs in fewer than about one run in "
        f"{max(verdict.worst.tested // 5, 1):,}. Attacks more sophisticated than these canaries were not tried.",
        figures={"ceiling of epsilon": verdict.ceiling, "runs that count": verdict.worst.tested},
    )
