"""Warm start: the best parameters of an earlier study are tried first in a new one."""

from __future__ import annotations

import optuna
from optuna.trial import TrialState

from hpo.sampling.suggestions import Value, within
from hpo.study.attributes import WARM_STARTED_FROM, is_degenerate
from trainer.config import SearchSpace
from trainer.wording import plural


def enqueue_best(source: optuna.Study, target: optuna.Study, space: SearchSpace, count: int) -> str:
    """Queues the best COMPLETE trials of ``source`` as the first trials of ``target``.

    Their values are not taken over, so that data, objective and space may differ. Of each the parameters
    that lie in the new space are kept, the others are drawn; degenerate trials and repetitions are left out.

    Args:
        source: The earlier study.
        target: A new study.
        space: The new study's space.
        count: How many at most.

    Returns:
        One line for the user.
    """
    trials = source.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    ranked = sorted(
        (trial for trial in trials if not is_degenerate(trial)),
        key=lambda trial: (-float(trial.value or 0.0), trial.number),
    )
    queued: list[dict[str, Value]] = []
    for trial in ranked:
        kept = {
            parameter.name: trial.params[parameter.name]
            for parameter in space.parameters
            if parameter.name in trial.params and within(parameter, trial.params[parameter.name])
        }
        if kept and kept not in queued and len(queued) < count:
            queued.append(kept)
            origin = f"{source.study_name}:{trial.number}"
            target.enqueue_trial(kept, user_attrs={WARM_STARTED_FROM: origin})
    best = f"the {len(queued)} best of its {plural(len(ranked), 'trial')}"
    return f"warm start from {source.study_name}: tries {best} first"
