# SPDX-License-Identifier: MIT
"""Owns language models: opening any form that Propane reads, tokens and text, generation, conversations, scores. One idea: a
text is a stream that advances by one token whenever it is asked. None of the caller's code runs inside the library, so
Ctrl-C and exceptions belong to the caller."""
from __future__ import annotations

import operator
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._propane import ffi, lib
from .error import (Handle, Path, chars, check, error, interrupted, invalid, kept_chars, path_chars, raise_interrupt,
                    structure, taken, text, utf8)
from .program import Program

Messages = Sequence[Mapping[str, str]]


class Tokenizer(Handle):
    """A vocabulary, which converts text to ids and back. It is immutable, so threads may share it."""

    def __init__(self, pointer: Any) -> None:
        self._own(pointer, lib.propane_tokenizer_free)
        info = structure("propane_tokenizer_info")
        lib.propane_tokenizer_describe(pointer, info)
        self.kind = text(info.kind)
        self.size, self.bos, self.eos = int(info.size_of_vocabulary), int(info.bos), int(info.eos)

    @property
    def hash(self) -> str:
        """SHA-256 of everything that affects its ids or texts."""
        out, err = ffi.new("const char **"), error()
        check(lib.propane_tokenizer_hash(self._alive(), out, err), err)
        return text(out[0])

    @classmethod
    def open(cls, path: Path) -> Tokenizer:
        """Opens a vocabulary's file (Propane's, tokenizer.json, llama2.c's, GGUF), or a model folder that has one."""
        out, err = ffi.new("propane_tokenizer **"), error()
        check(lib.propane_tokenizer_open(path_chars(path), out, err), err)
        return cls(out[0])

    @classmethod
    def from_pretrained(cls, path: Path) -> Tokenizer:
        """The same, under the name that transformers uses."""
        return cls.open(path)

    @classmethod
    def train(cls, words: str, *, kind: str = "bpe", size: int = 4096) -> Tokenizer:
        """Learns a vocabulary from a text: "bpe" with up to `size` ids (257 to 65536), "chars", or "bytes" (which needs no
        text)."""
        raw, out, err = words.encode(), ffi.new("propane_tokenizer **"), error()
        check(lib.propane_tokenizer_train(utf8(kind), raw, len(raw), size, out, err), err)
        return cls(out[0])

    def __len__(self) -> int:
        return self.size

    def encode(self, words: str) -> List[int]:
        """Returns ids, without bos."""
        raw, ids, count, err = words.encode(), ffi.new("int32_t **"), ffi.new("int64_t *"), error()
        check(lib.propane_tokenizer_encode(self._alive(), raw, len(raw), ids, count, err), err)
        try:
            return list(ffi.unpack(ids[0], count[0])) if count[0] else []
        finally:
            lib.propane_free(ids[0])

    def decode(self, ids: Sequence[int]) -> str:
        """Returns text; bytes that are not UTF-8 become U+FFFD."""
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
    """One generated token: the text that became final (its ids may have been generated earlier), the id (-1 if there is
    none, only the rest of the text), its log-probability and, if requested, those of the most likely ids. str() is the text."""
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
    """A complete text: the reason that it ended ("length", "context", "end", "stop", "cancelled"), its ids, the number of
    ids of the prompt, and how many of those were still in the cache."""
    text: str
    finish: str
    ids: Tuple[int, ...]
    prompt_count: int
    reused: int

    def __str__(self) -> str:
        return self.text


def _stopped(kind: Any, failure: BaseException, trace: Any) -> bool:
    interrupted(kind, failure, trace)
    return False


@ffi.def_extern(onerror=_stopped)
def propane_ml_on_token(context: Any, token: Any) -> bool:
    top = tuple((row.id, row.logprob) for row in token.top[0:token.top_count]) if token.top_count else ()
    words = bytes(ffi.buffer(token.text, token.length)).decode("utf-8", "replace") if token.length else ""
    ffi.from_handle(context).append(Token(words, token.id, bool(token.end), token.logprob, top))
    return True


_NOTHING = Token("", -1, False, None, ())


class _Stream(Handle):
    """The library's side of a Text: its slot among the texts of the model, the generated tokens, and the reason of its end."""

    def __init__(self, model: Model, ids: List[int], sampling: Mapping[str, Any], chat: Any = None) -> None:
        self._model, self._err = model, error()
        self._options, self._keep = _sampling(sampling)
        self._made: List[Token] = []
        self._ids, self._context, self._chat = ffi.new("int32_t[]", ids), ffi.new_handle(self._made), chat
        self._printed: List[Token] = []
        self._given, self._reused, self._finish = len(ids), 0, "cancelled"
        if chat is not None:
            self._options.chat = chat

    def tokens(self) -> Iterator[Token]:
        """Yields two empty items, then the text. After the first, whatever ends the generator frees its slot; after the
        second, it has one. In an iterator's own __next__, Ctrl-C could arrive before the first line, and a saved traceback
        would keep the text and its slot."""
        try:
            try:
                yield _NOTHING
                self._begin()
                yield _NOTHING
                while self._made or self._advance():
                    if self._made:
                        yield self._next()
            finally:
                self.close()
        finally:  # Ctrl-C may have arrived before the first line of close()
            self.close()

    def _next(self) -> Token:
        token = self._made.pop(0)
        if self._options.logprobs < 0:
            token = Token(token.text, token.id, token.end, None, ())
        self._printed.append(token)
        return token

    def _begin(self) -> None:
        out = ffi.new("propane_stream **")
        try:
            with self._model._lock:
                check(lib.propane_stream_begin(self._model._writer(), self._ids, len(self._ids), self._options,
                                               lib.propane_ml_on_token, self._context, out, self._err), self._err)
                self._own(out[0], lib.propane_stream_free)
                self._model._streams.add(self)
        except BaseException:
            if self.closed and out[0] != ffi.NULL:  # Ctrl-C arrived before it was owned
                lib.propane_stream_free(out[0])
            raise

    def _advance(self) -> bool:
        """Generates one more id for each text of the model. Returns False if this text is finished."""
        with self._model._lock:
            if self.closed:
                return False
            if lib.propane_stream_done(self._pointer):
                out = structure("propane_generation")
                check(lib.propane_stream_result(self._pointer, out, self._err), self._err)
                self._finish, self._reused = text(lib.propane_finish_name(out.finish)), int(out.reused)
                self.close()
                return bool(self._made)
            check(lib.propane_generator_advance(self._model._writer(), self._err), self._err)
            raise_interrupt()
            return True

    def result(self) -> Generation:
        return Generation("".join(t.text for t in self._printed), self._finish, tuple(t.id for t in self._printed if t.id >= 0),
                          self._given, self._reused)

    def close(self) -> None:
        with self._model._lock:
            super().close()


class Text(Iterator[Token]):
    """A text that is being generated: an iterator of Token. `result` is the Generation so far, and is complete after the
    last token. close(), dropping the object, or Ctrl-C ends the text."""

    def __init__(self, stream: _Stream) -> None:
        try:
            self._stream, self._tokens = stream, stream.tokens()
            next(self._tokens)
            next(self._tokens)
        except BaseException:  # Ctrl-C after the last one
            stream.close()
            raise

    # Without a separate frame, in which Ctrl-C could arrive before tokens() sees it.
    __iter__ = property(operator.attrgetter("_tokens.__iter__"))
    __next__ = property(operator.attrgetter("_tokens.__next__"))

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def close(self) -> None:
        """Ends the text. Closing it again does nothing."""
        self._stream.close()

    def __enter__(self) -> Text:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def result(self) -> Generation:
        return self._stream.result()


class Model(Handle):
    """A language model for generation: Llama, Qwen, GPT-2 and similar models, from a Hugging Face folder, a run's folder,
    safetensors, GGUF or a llama2.c checkpoint. One thread works at a time; others wait."""

    def __init__(self, path: Path, adapter: Optional[Path] = None, *, tokenizer: Union[Tokenizer, Path, None] = None,
                 device: str = "cpu", precision: Optional[str] = None, weights: Optional[str] = None,
                 context: int = 0, parallel: int = 1) -> None:
        out, err = ffi.new("propane_model **"), error()
        folder = ffi.NULL if adapter is None else path_chars(adapter)
        check(lib.propane_model_open(path_chars(path), folder, out, err), err)
        self._own(out[0], lib.propane_model_free)
        self.tokenizer = self._vocabulary(tokenizer)
        self._choice = (device, precision, weights, context, parallel)
        self._streams: "weakref.WeakSet[_Stream]" = weakref.WeakSet()
        self._generator: Any = None
        self._files: Any = None  # a folder that belongs to it
        self._lock = threading.RLock()
        info = structure("propane_model_info")
        lib.propane_model_describe(out[0], info)
        self.architecture = text(info.architecture)
        self.layers, self.width, self.heads, self.kv_heads = info.layers, info.width, info.heads, info.kv_heads
        self.vocabulary, self.context, self.parameters = info.vocabulary, info.context, info.parameters

    @classmethod
    def from_pretrained(cls, path: Path, adapter: Optional[Path] = None, *,
                        tokenizer: Union[Tokenizer, Path, None] = None, device: str = "cpu",
                        precision: Optional[str] = None, weights: Optional[str] = None, context: int = 0,
                        parallel: int = 1) -> Model:
        """path: a folder or a file. adapter: the folder of a LoRA adapter in peft's format. tokenizer: None looks for one
        next to the model. device: "cpu", "sim:m4". precision: "fp32" (None), "fp16". weights: the form in which matrices are
        stored, "auto" (None), "fp32", "bf16", "fp16", "int8", "int4". context: the longest sequence in ids (0: the model's
        own limit). parallel: the number of texts that may be generated at the same time; the weights are read once for all
        of them."""
        return cls(path, adapter, tokenizer=tokenizer, device=device, precision=precision, weights=weights, context=context,
                   parallel=parallel)

    def _vocabulary(self, given: Union[Tokenizer, Path, None]) -> Optional[Tokenizer]:
        if given is not None:
            return given if isinstance(given, Tokenizer) else Tokenizer.open(given)
        out, err = ffi.new("propane_tokenizer **"), error()
        status = lib.propane_model_tokenizer(self._pointer, out, err)
        if status == lib.PROPANE_ERR_NOT_FOUND:
            return None
        check(status, err)
        return Tokenizer(out[0])

    def _writer(self) -> Any:
        if self._generator is None:
            options, out, err = structure("propane_generator_options"), ffi.new("propane_generator **"), error()
            device, precision, weights, context, parallel = self._choice
            words = [kept_chars(w) for w in (device, precision, weights)]
            options.uri, options.precision, options.weights = words
            options.context, options.parallel = context, parallel
            tokenizer = ffi.NULL if self.tokenizer is None else self.tokenizer._alive()
            check(lib.propane_generator_create(self._alive(), tokenizer, options, out, err), err)
            self._generator = ffi.gc(out[0], lib.propane_generator_free)
        return self._generator

    # ---- writing

    def _ids(self, prompt: Union[str, Sequence[int]]) -> List[int]:
        if not isinstance(prompt, str):
            return [int(i) for i in prompt]
        if self.tokenizer is None:
            raise invalid("a text needs a tokenizer, and this model has none; give ids, or tokenizer=")
        return ([self.tokenizer.bos] if self.tokenizer.bos >= 0 else []) + self.tokenizer.encode(prompt)

    def generate(self, prompt: Union[str, Sequence[int]], **sampling: Any) -> Text:
        """Continues a prompt token by token. Returns an iterator of Token, whose `result` is the Generation.

        prompt: a text, or ids, which are used unchanged. sampling: count (200), temperature (0.8; 0: always the most likely
        token), top_k, top_p (0.95), min_p, repetition, frequency, presence, seed (1), stops (texts), ignore_end, logprobs (N
        most likely ids for each token).
        """
        return Text(_Stream(self, self._ids(prompt), sampling))

    def complete(self, prompt: Union[str, Sequence[int]], on_token: Optional[Callable[[Token], Optional[bool]]] = None,
                 **sampling: Any) -> Generation:
        """Continues a prompt and returns the complete text. on_token is called with each Token; the text ends if it returns
        False or raises an exception."""
        return _whole(_Stream(self, self._ids(prompt), sampling), on_token)

    def chat(self, messages: Messages, *, format: Optional[str] = None,
             on_token: Optional[Callable[[Token], Optional[bool]]] = None, **sampling: Any) -> Generation:
        """Returns the answer to a conversation of {"role", "content"} messages, in the model's own chat format or in a named
        one ("chatml")."""
        return _whole(self._answer(messages, format, sampling), on_token)

    def chat_stream(self, messages: Messages, *, format: Optional[str] = None, **sampling: Any) -> Text:
        """The same, token by token. If the context is too short, the oldest turns are dropped."""
        return Text(self._answer(messages, format, sampling))

    def _answer(self, messages: Messages, format: Optional[str], sampling: Mapping[str, Any]) -> _Stream:
        if self.tokenizer is None:
            raise invalid("a conversation needs a tokenizer, and this model has none; give tokenizer=")
        keep = [(ffi.new("char[]", utf8(str(m["role"]))), ffi.new("char[]", utf8(str(m["content"])))) for m in messages]
        rows = ffi.new("propane_chat_message[]", [{"role": r, "content": c} for r, c in keep] or 1)
        out, ids, count, err = ffi.new("propane_chat **"), ffi.new("int32_t **"), ffi.new("int64_t *"), error()
        check(lib.propane_chat_open(self._alive(), self.tokenizer._alive(), chars(format), out, err), err)
        chat = ffi.gc(out[0], lib.propane_chat_free)
        with self._lock:
            context = lib.propane_generator_context(self._writer())
        room = max(1, context - min(int(sampling.get("count", 200)), context // 2))
        check(lib.propane_chat_encode(chat, rows, len(keep), room, ids, count, ffi.NULL, err), err)
        try:
            given = list(ffi.unpack(ids[0], count[0]))
        finally:
            lib.propane_free(ids[0])
        return _Stream(self, given, sampling, chat)

    def _idle_writer(self) -> Any:
        """Returns the generator for a use from its initial state: no text may be in progress. Call it with the lock held."""
        if any(not t.closed for t in self._streams):
            raise invalid("a text is still being generated: finish or close it first")
        return self._writer()

    def score(self, given: Union[str, Sequence[int]]) -> Any:
        """Returns -log p of each id after the first, in nats: float64 [ids - 1]. A text is encoded, with bos if the
        vocabulary has one."""
        ids = self._ids(given)
        if len(ids) < 2:
            raise invalid(f"{len(ids)} ids; a score needs at least two")
        nll, err = np.empty(len(ids) - 1, np.float64), error()
        with self._lock:
            check(lib.propane_generator_score(self._idle_writer(), ffi.new("int32_t[]", ids), len(ids),
                                              ffi.from_buffer("double[]", nll), err), err)
        return nll

    def embed(self, given: Union[str, Sequence[int]]) -> Any:
        """Returns an embedding of a text, to be compared by dot product: float32 [width], of length 1. It is the input of
        the head after the last norm, summed over all ids. A text is encoded, with bos if the vocabulary has one."""
        ids = self._ids(given)
        if not ids:
            raise invalid("there is nothing to embed")
        vector, err = np.empty(self.width, np.float32), error()
        with self._lock:
            check(lib.propane_generator_embed(self._idle_writer(), ffi.new("int32_t[]", ids), len(ids),
                                              ffi.from_buffer("float[]", vector), err), err)
        return vector

    # ---- other forms

    def save(self, path: Path, dtype: Optional[str] = None) -> None:
        """Writes NAME.safetensors, NAME.gguf, NAME.bin (llama2.c) or a folder. dtype: "f32" (None), "f16", "bf16"; for GGUF
        also "q8_0", "q4_0"."""
        err = error()
        tokenizer = ffi.NULL if self.tokenizer is None else self.tokenizer._alive()
        check(lib.propane_model_save(self._alive(), tokenizer, path_chars(path), chars(dtype), err), err)

    def export(self, *, wide: bool = False, context: int = 0, lengths: Sequence[int] = (), stateless: int = 0) -> Program:
        """Returns the model as one program with its cache in states, for Core ML or predict(). wide: use fp32; lengths: the
        numbers of ids that one call may take; stateless: the number of ids in every call of a program without a cache."""
        options, out, err = structure("propane_export_options"), ffi.new("propane_module **"), error()
        many = ffi.new("int64_t[]", list(lengths)) if lengths else ffi.NULL
        options.wide, options.context, options.stateless = wide, context, stateless
        options.lengths, options.length_count = many, len(lengths)
        check(lib.propane_model_export(self._alive(), options, out, err), err)
        return Program(out[0])

    def close(self) -> None:
        """Frees the model and its texts now."""
        with self._lock:
            for written in list(self._streams):
                written.close()
            generator, self._generator = self._generator, None
            if generator is not None:
                ffi.release(generator)
            super().close()

    def __repr__(self) -> str:
        return f"<Model {self.architecture}, {self.parameters / 1e6:.1f} M parameters, context {self.context}>"


def _whole(stream: _Stream, on_token: Optional[Callable[[Token], Optional[bool]]]) -> Generation:
    for token in stream.tokens():  # which ends with the loop, however that ends, and frees the text's place
        if token is not _NOTHING and on_token is not None and on_token(token) is False:
            break
    return stream.result()


def _sampling(given: Mapping[str, Any]) -> Tuple[Any, Any]:
    options, keep = structure("propane_sampling"), []
    lib.propane_sampling_default(options)
    known = [name for name, _ in ffi.typeof("propane_sampling").fields if name not in ("size", "stop_count")]
    values: Dict[str, Any] = dict(given)
    for name in values:
        if name not in known:
            raise invalid(f"there is no option '{name}'; available: {', '.join(known)}")
    stops = values.pop("stops", None)
    for name, value in values.items():
        setattr(options, name, value)
    if stops:
        keep = [ffi.new("char[]", utf8(stop)) for stop in ([stops] if isinstance(stops, str) else stops)]
        if len(keep) > lib.PROPANE_MAX_STOPS:
            raise invalid(f"{len(keep)} stop strings; the maximum is {lib.PROPANE_MAX_STOPS}")
        keep.append(ffi.new("char *[]", keep))
        options.stops, options.stop_count = keep[-1], len(keep) - 1
    return options, keep
