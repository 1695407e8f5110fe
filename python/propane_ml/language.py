# SPDX-License-Identifier: MIT
"""Owns language models: opening any form that Propane reads, tokens and text, writing on, conversations, scores. One idea:
the library tells each token to a callback in the thread that generates; an iterator runs it in a thread of its own, one token
ahead. Ctrl-C and errors in callbacks end the text and reach the caller."""
from __future__ import annotations

import atexit
import queue
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._propane import ffi, lib
from .error import Handle, Path, check, chars, error, invalid, path_chars, structure, taken, text
from .program import Program

_FINISHES = {lib.PROPANE_FINISH_LENGTH: "length", lib.PROPANE_FINISH_CONTEXT: "context", lib.PROPANE_FINISH_END: "end",
             lib.PROPANE_FINISH_STOP: "stop", lib.PROPANE_FINISH_CALLER: "caller"}
Messages = Sequence[Mapping[str, str]]


class Tokenizer(Handle):
    """A vocabulary: text to ids and back. Does not change; threads may share it."""

    def __init__(self, pointer: Any) -> None:
        self._own(pointer, lib.propane_tokenizer_free)
        info = structure("propane_tokenizer_info")
        lib.propane_tokenizer_describe(pointer, info)
        self.kind, self.hash = text(info.kind), text(info.hash)
        self.size, self.bos, self.eos = int(info.size_of_vocabulary), int(info.bos), int(info.eos)

    @classmethod
    def open(cls, path: Path) -> Tokenizer:
        """A vocabulary's file (Propane's, tokenizer.json, llama2.c's, GGUF), or the folder of a model with one."""
        out, err = ffi.new("propane_tokenizer **"), error()
        check(lib.propane_tokenizer_open(path_chars(path), out, err), err)
        return cls(out[0])

    from_pretrained = open

    @classmethod
    def train(cls, words: str, *, kind: str = "bpe", size: int = 4096) -> Tokenizer:
        """Learnt from a text: "bpe" with up to `size` ids (257 to 65536), "chars", or "bytes" (of no text)."""
        raw, out, err = words.encode(), ffi.new("propane_tokenizer **"), error()
        check(lib.propane_tokenizer_train(kind.encode(), raw, len(raw), size, out, err), err)
        return cls(out[0])

    def __len__(self) -> int:
        return self.size

    def encode(self, words: str) -> List[int]:
        """Ids, without bos."""
        raw, ids, count, err = words.encode(), ffi.new("int32_t **"), ffi.new("int64_t *"), error()
        check(lib.propane_tokenizer_encode(self._alive(), raw, len(raw), ids, count, err), err)
        try:
            return list(ffi.unpack(ids[0], count[0])) if count[0] else []
        finally:
            lib.propane_free(ids[0])

    def decode(self, ids: Sequence[int]) -> str:
        """Text; bytes that are no UTF-8 become U+FFFD."""
        given, out, length, err = ffi.new("int32_t[]", [int(i) for i in ids]), ffi.new("char **"), ffi.new("size_t *"), error()
        check(lib.propane_tokenizer_decode(self._alive(), given, len(given), out, length, err), err)
        return taken(out[0], length[0])

    def save(self, path: Path) -> None:
        err = error()
        check(lib.propane_tokenizer_write(self._alive(), path_chars(path), err), err)

    def __repr__(self) -> str:
        return f"<Tokenizer {self.kind}, {self.size} ids>"


@dataclass(frozen=True)
class Token:
    """What a generator wrote: the text that became certain (its ids may have come earlier), the id (-1: none, only the rest of
    the text), its logarithm of the probability and those of the likeliest ids, where asked for. str() is the text."""
    text: str
    id: int
    end: bool
    logprob: Optional[float]
    top: Tuple[Tuple[int, float], ...]

    def __str__(self) -> str:
        return self.text

    def __format__(self, spec: str) -> str:
        return format(self.text, spec)


@dataclass(frozen=True)
class Generation:
    """A whole text: why it ended ("length", "context", "end", "stop", "caller"), its ids, ids of the prompt, how many of those
    were still in the cache."""
    text: str
    finish: str
    ids: Tuple[int, ...]
    prompt_count: int
    reused: int

    def __str__(self) -> str:
        return self.text


class _Call:
    """One text on its way: what the callback is given, and what went wrong in it."""

    def __init__(self, tell: Callable[[Token], Optional[bool]], logprobs: bool) -> None:
        self.tell, self.logprobs = tell, logprobs
        self.failure: Optional[BaseException] = None


def _failed(kind: Any, failure: BaseException, trace: Any) -> bool:
    frame = trace.tb_frame if trace else None
    while frame is not None and "context" not in frame.f_locals:
        frame = frame.f_back
    if frame is not None:
        ffi.from_handle(frame.f_locals["context"]).failure = failure
    return False


@ffi.def_extern(error=False, onerror=_failed)  # type: ignore[misc]
def propane_ml_on_token(context: Any, token: Any) -> bool:
    call = ffi.from_handle(context)
    try:
        top = tuple((row.id, row.logprob) for row in token.top[0:token.top_count]) if token.top_count else ()
        words = bytes(ffi.buffer(token.text, token.length)).decode("utf-8", "replace") if token.length else ""
        made = Token(words, token.id, bool(token.end), token.logprob if call.logprobs and token.id >= 0 else None, top)
        return call.tell(made) is not False
    except BaseException as failure:  # Ctrl-C too: it is raised again behind the C call
        call.failure = failure
        return False


class _Stream(Iterator[Token]):
    """Tokens of a thread of its own; dropping it ends the text."""

    def __init__(self, work: Callable[[Callable[[Token], bool]], Generation]) -> None:
        self.result: Optional[Generation] = None
        self._ready: "queue.Queue[Any]" = queue.Queue(maxsize=1)
        self._stop = threading.Event()
        ready, stop = self._ready, self._stop

        def put(item: Any) -> bool:
            while not stop.is_set():
                try:
                    ready.put(item, timeout=0.05)
                    return True
                except queue.Full:
                    continue
            return False

        def run() -> None:
            try:
                put(work(put))
            except BaseException as failure:
                put(failure)

        self._thread = threading.Thread(target=run, name="propane_ml generates", daemon=True)
        _streams.add(self)
        self._thread.start()

    def __next__(self) -> Token:
        if self.result is not None or self._stop.is_set():
            raise StopIteration
        item = self._ready.get()
        if isinstance(item, Token):
            return item
        self._stop.set()
        self._thread.join()
        if isinstance(item, BaseException):
            raise item
        self.result = item
        raise StopIteration

    def close(self) -> None:
        """Ends the text."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def __del__(self) -> None:
        self._stop.set()


_streams: "weakref.WeakSet[_Stream]" = weakref.WeakSet()


@atexit.register
def _end_streams() -> None:
    for stream in list(_streams):
        stream.close()


class Model(Handle):
    """A language model that writes: Llama, Qwen, GPT-2 and their like, from a Hugging Face folder, a run's folder, safetensors,
    GGUF or llama2.c's checkpoint. One text at a time; other threads wait."""

    def __init__(self, path: Path, adapter: Optional[Path] = None, *, tokenizer: Union[Tokenizer, Path, None] = None,
                 device: str = "cpu", precision: Optional[str] = None, weights: Optional[str] = None,
                 context: int = 0) -> None:
        out, err = ffi.new("propane_model **"), error()
        folder = ffi.NULL if adapter is None else path_chars(adapter)
        check(lib.propane_model_open(path_chars(path), folder, out, err), err)
        self._own(out[0], lib.propane_model_free)
        self.tokenizer: Optional[Tokenizer] = (tokenizer if isinstance(tokenizer, Tokenizer) else
                                               Tokenizer.open(tokenizer) if tokenizer is not None else _vocabulary(path))
        self._choice = (device, precision, weights, context)
        self._generator: Any = None
        self._lock = threading.RLock()
        info = structure("propane_model_info")
        lib.propane_model_describe(out[0], info)
        self.architecture = text(info.architecture)
        self.layers, self.width, self.heads, self.kv_heads = info.layers, info.width, info.heads, info.kv_heads
        self.vocabulary, self.context, self.parameters = info.vocabulary, info.context, info.parameters

    @classmethod
    def from_pretrained(cls, path: Path, adapter: Optional[Path] = None, *,
                        tokenizer: Union[Tokenizer, Path, None] = None, device: str = "cpu",
                        precision: Optional[str] = None, weights: Optional[str] = None, context: int = 0) -> Model:
        """path: a folder or a file; adapter: a LoRA adapter's folder in peft's form; tokenizer: None looks beside the model.
        device: "cpu", "sim:m4"; precision: "fp32" (None), "fp16"; weights: how matrices are stored: "auto" (None), "fp32",
        "bf16", "fp16", "int8", "int4"; context: longest sequence in ids (0: the model's)."""
        return cls(path, adapter, tokenizer=tokenizer, device=device, precision=precision, weights=weights, context=context)

    def _writer(self) -> Any:
        if self._generator is None:
            options, out, err = structure("propane_generator_options"), ffi.new("propane_generator **"), error()
            device, precision, weights, context = self._choice
            words = [ffi.NULL if w is None else ffi.new("char[]", w.encode()) for w in (device, precision, weights)]
            options.uri, options.precision, options.weights = words
            options.context = context
            tokenizer = ffi.NULL if self.tokenizer is None else self.tokenizer._alive()
            check(lib.propane_generator_create(self._alive(), tokenizer, options, out, err), err)
            self._generator = ffi.gc(out[0], lib.propane_generator_free)
        return self._generator

    # ---- writing

    def _run(self, prompt: Any, sampling: Mapping[str, Any], tell: Callable[[Token], Any]) -> Generation:
        pieces: List[Token] = []

        def on_token(token: Token) -> Optional[bool]:
            pieces.append(token)
            return tell(token)  # type: ignore[no-any-return]

        options, _keep = _sampling(sampling)
        call = _Call(on_token, options.logprobs >= 0)
        handle, out, err = ffi.new_handle(call), structure("propane_generation"), error()
        with self._lock:
            status = _begin(self._writer(), prompt, options, handle, out, err)
        if call.failure is not None:
            raise call.failure
        check(status, err)
        return Generation("".join(t.text for t in pieces), _FINISHES[out.finish],
                          tuple(t.id for t in pieces if t.id >= 0), int(out.prompt_count), int(out.reused))

    def generate(self, prompt: Union[str, Sequence[int]], **sampling: Any) -> _Stream:
        """Writes on, token by token: an iterator of Token; its `result` is the Generation when it is done.

        sampling: count (200), temperature (0.8; 0: the likeliest), top_k, top_p (0.95), min_p, repetition, frequency, presence,
        seed (1), stops (texts), ignore_end, logprobs (N likeliest ids with each)."""
        _sampling(sampling)
        given = _prompt(prompt)
        return _Stream(lambda put: self._run(given, sampling, put))

    def complete(self, prompt: Union[str, Sequence[int]], on_token: Optional[Callable[[Token], Optional[bool]]] = None,
                 **sampling: Any) -> Generation:
        """Writes on, in this thread, and gives the whole text. on_token: told each Token; False ends the text."""
        return self._run(_prompt(prompt), sampling, on_token or (lambda token: None))

    def chat(self, messages: Messages, *, format: Optional[str] = None, stream: bool = False,
             on_token: Optional[Callable[[Token], Optional[bool]]] = None, **sampling: Any) -> Any:
        """The answer to a conversation of {"role", "content"}, in the model's own format or that of a name ("chatml").

        A Generation, or with stream=True an iterator of Token as generate() gives."""
        given = (format, [(str(m["role"]), str(m["content"])) for m in messages])
        if stream:
            _sampling(sampling)
            return _Stream(lambda put: self._run(given, sampling, put))
        return self._run(given, sampling, on_token or (lambda token: None))

    def score(self, given: Union[str, Sequence[int]]) -> Any:
        """-log p of each id after the first, in nats: float64 [ids - 1]. A text is encoded, with bos where there is one."""
        if isinstance(given, str):
            if self.tokenizer is None:
                raise invalid("a text cannot be scored without a tokenizer; give ids")
            ids = ([self.tokenizer.bos] if self.tokenizer.bos >= 0 else []) + self.tokenizer.encode(given)
        else:
            ids = [int(i) for i in given]
        if len(ids) < 2:
            raise invalid(f"{len(ids)} ids; a score needs two or more")
        nll, err = np.empty(len(ids) - 1, np.float64), error()
        with self._lock:
            check(lib.propane_generator_score(self._writer(), ffi.new("int32_t[]", ids), len(ids),
                                              ffi.from_buffer("double[]", nll), err), err)
        return nll

    # ---- other forms

    def save(self, path: Path, dtype: Optional[str] = None) -> None:
        """NAME.safetensors, NAME.gguf, NAME.bin (llama2.c) or a folder. dtype: "f32" (None), "f16", "bf16"; of GGUF also
        "q8_0", "q4_0"."""
        err = error()
        tokenizer = ffi.NULL if self.tokenizer is None else self.tokenizer._alive()
        check(lib.propane_model_save(self._alive(), tokenizer, path_chars(path), chars(dtype), err), err)

    def export(self, *, wide: bool = False, context: int = 0, lengths: Sequence[int] = (), stateless: int = 0) -> Program:
        """As one program with a cache in states, for Core ML or predict(). wide: fp32; lengths: ids that one call may take;
        stateless: ids of every call of a program without a cache."""
        options, out, err = structure("propane_export_options"), ffi.new("propane_module **"), error()
        many = ffi.new("int64_t[]", list(lengths)) if lengths else ffi.NULL
        options.wide, options.context, options.stateless = wide, context, stateless
        options.lengths, options.length_count = many, len(lengths)
        check(lib.propane_model_export(self._alive(), options, out, err), err)
        return Program(out[0])

    def close(self) -> None:
        """Frees it now."""
        with self._lock:
            generator, self._generator = self._generator, None
            if generator is not None:
                ffi.release(generator)
            super().close()

    def __repr__(self) -> str:
        return f"<Model {self.architecture}, {self.parameters / 1e6:.1f} M parameters, context {self.context}>"


def _vocabulary(path: Path) -> Optional[Tokenizer]:
    from .error import PropaneError
    try:
        return Tokenizer.open(path)
    except PropaneError as failure:
        if failure.status in ("not found", "invalid", "unsupported"):
            return None
        raise


def _prompt(prompt: Union[str, Sequence[int]]) -> Any:
    return prompt.encode() if isinstance(prompt, str) else [int(i) for i in prompt]


def _begin(generator: Any, prompt: Any, options: Any, handle: Any, out: Any, err: Any) -> int:
    on_token = lib.propane_ml_on_token
    if isinstance(prompt, bytes):
        return int(lib.propane_generate(generator, prompt, len(prompt), options, on_token, handle, out, err))
    if isinstance(prompt, list):
        return int(lib.propane_generate_ids(generator, ffi.new("int32_t[]", prompt), len(prompt), options, on_token, handle,
                                            out, err))
    name, turns = prompt
    keep = [(ffi.new("char[]", role.encode()), ffi.new("char[]", content.encode())) for role, content in turns]
    rows = ffi.new("propane_chat_message[]", [{"role": r, "content": c} for r, c in keep] or 1)
    return int(lib.propane_generate_chat(generator, chars(name), rows, len(keep), options, on_token, handle, out, err))


def _sampling(given: Mapping[str, Any]) -> Tuple[Any, Any]:
    options, keep = structure("propane_sampling"), []
    lib.propane_sampling_default(options)
    known = [name for name, _ in ffi.typeof("propane_sampling").fields if name not in ("size", "stop_count")]
    values: Dict[str, Any] = dict(given)
    for name in values:
        if name not in known:
            raise invalid(f"there is no option '{name}'; there is: {', '.join(known)}")
    stops = values.pop("stops", None)
    for name, value in values.items():
        setattr(options, name, value)
    if stops:
        keep = [ffi.new("char[]", stop.encode()) for stop in ([stops] if isinstance(stops, str) else stops)]
        if len(keep) > lib.PROPANE_MAX_STOPS:
            raise invalid(f"{len(keep)} stop strings; the most is {lib.PROPANE_MAX_STOPS}")
        keep.append(ffi.new("char *[]", keep))
        options.stops, options.stop_count = keep[-1], len(keep) - 1
    return options, keep
