from .arrays import empty as empty
from .device import Device as Device, devices as devices, operations as operations
from .error import PropaneError as PropaneError
from .language import Generation as Generation, Model as Model, Text as Text, Token as Token, Tokenizer as Tokenizer
from .nonfinite import NonfiniteWarning as NonfiniteWarning
from .process import on_log as on_log, set_threads as set_threads, set_verify as set_verify, threads as threads, version as version
from .program import Feature as Feature, Program as Program, load as load, parse as parse
from .report import (
    Estimate as Estimate,
    EstimateRow as EstimateRow,
    Finding as Finding,
    Report as Report,
    Table as Table,
    Verdict as Verdict,
    check as check,
)
from .session import Session as Session, State as State
from .trainer import (
    Callbacks as Callbacks,
    Evaluation as Evaluation,
    History as History,
    Step as Step,
    Trainer as Trainer,
    options as options,
)

__all__: list[str]
