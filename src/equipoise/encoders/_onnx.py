"""``onnx:`` a folder with two graphs, a tokenizer and ``encoder.json``: an encoder without torch.

``export_onnx`` writes such folders. A graph made elsewhere works too: encoder.json says what its
inputs are called and whether it takes bytes or normalised floats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from equipoise._artefact import require_format, sha256
from equipoise.encoders._passes import one_by_one
from equipoise.encoders._preprocess import Preprocess
from equipoise.encoders._towers import Modality, Towers
from equipoise.errors import ArtefactError, InputError, MissingExtraError

try:
    import onnxruntime
    import tokenizers
except ImportError as error:
    raise MissingExtraError("an onnx: encoder", "onnxruntime with tokenizers", "onnx") from error

FORMAT = 1
SETTINGS = "encoder.json"
INTEGERS = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}
PROVIDERS = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}


class ImageGraph(BaseModel):
    """The image graph, its names and its layout.

    layout: "bytes" is uint8 (n, height, width, 3), normalised in the graph; "floats" is normalised
    float32 (n, 3, height, width).
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    file: str = "image.onnx"
    input: str = "pixels"
    output: str = "unit_row"
    layout: Literal["bytes", "floats"] = "bytes"
    preprocess: dict[str, Any]


class TextGraph(BaseModel):
    """The text graph, its names and its padding.

    pad_to_end: texts are padded to ``max_tokens`` rather than to the longest of a batch.
    padding_side: "right" or "left".
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    file: str = "text.onnx"
    tokenizer: str = "tokenizer.json"
    input_ids: str = "input_ids"
    attention_mask: str = "attention_mask"
    output: str = "unit_row"
    max_tokens: int
    pad_id: int = 0
    pad_to_end: bool = False
    padding_side: Literal["right", "left"] = "right"


class ExportSettings(BaseModel):
    """What encoder.json holds.

    fingerprint: that of the encoder that was exported. sha256: the hash of each file. seal: a hash
    of all the rest, so that an edit shows.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    format: int = FORMAT
    id: str = ""
    revision: str = ""
    dim: int
    fingerprint: str = ""
    text: TextGraph
    image: ImageGraph | None = None
    sha256: dict[str, str] = {}
    seal: str = ""


def seal(settings: ExportSettings) -> str:
    """Return a hash of everything else in encoder.json."""
    return hashlib.sha256(settings.model_dump_json(exclude={"seal"}).encode()).hexdigest()


def load(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool = False,
) -> ONNXTowers:
    """Load the encoder of a folder."""
    return ONNXTowers.of(Path(name).expanduser(), device, dtype)


class ONNXTowers(Towers):
    """Two sessions of onnxruntime."""

    @classmethod
    def of(cls, folder: Path, device: str | None = None, dtype: str | None = None) -> Self:
        """Return the towers of a folder; check each file against its checksum in encoder.json."""
        if dtype not in (None, "float32"):
            raise InputError(
                f"dtype={dtype!r} is not legal here: an ONNX graph has the precision that it was"
                " exported with"
            )
        if not (folder / SETTINGS).is_file():
            raise InputError(
                f"onnx:{folder} is not a folder with {SETTINGS}; export_onnx(encoder, FOLDER)"
                " writes one"
            )
        settings = _read(folder / SETTINGS)
        _check_files(folder, settings)
        return cls(folder, settings, _provider(device))

    def __init__(self, folder: Path, settings: ExportSettings, provider: str):
        self.id = settings.id or f"onnx:{folder}"
        self.revision, self.dim = settings.revision, settings.dim
        self.device = next(device for device, known in PROVIDERS.items() if known == provider)
        self.runtime = f"onnxruntime {onnxruntime.__version__}"
        self.repeatable = self.device == "cpu"
        self.settings = settings
        self._folder = folder
        text, image = settings.text, settings.image
        self._text = _session(folder / text.file, provider, [text.input_ids], text.output)
        self._image = None
        self.preprocess = None
        self.modalities: tuple[Modality, ...] = ("text",)
        if image:
            self._image = _session(folder / image.file, provider, [image.input], image.output)
            self.preprocess = Preprocess.from_json(image.preprocess)
            self.modalities = ("text", "image")
        self.max_tokens = settings.text.max_tokens
        self._whole, self._cut = _tokenizer(folder / settings.text.tokenizer), self.tokenizer()
        self._whole.no_truncation()
        self._whole.no_padding()

    def tokenizer(self, room: int = 0) -> Any:
        """Return a tokenizer that pads for the graph, and cuts so that ``room`` more tokens fit."""
        text, longest = self.settings.text, self.max_tokens - room
        tokenizer = _tokenizer(self._folder / text.tokenizer)
        tokenizer.enable_truncation(longest)
        tokenizer.enable_padding(
            direction=text.padding_side,
            pad_id=text.pad_id,
            length=longest if text.pad_to_end else None,
        )
        return tokenizer

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        return [len(encoding) for encoding in self._whole.encode_batch(list(texts))]

    def text_features(self, texts: Sequence[str]) -> np.ndarray:
        if not self.repeatable:
            return self._text_batch(texts)
        return one_by_one(lambda text: self._text_batch([text]), texts)

    def _text_batch(self, texts: Sequence[str]) -> np.ndarray:
        tokens = self._cut.encode_batch(list(texts))
        graph = self.settings.text
        inputs = {
            graph.input_ids: [t.ids for t in tokens],
            graph.attention_mask: [t.attention_mask for t in tokens],
        }
        feed = {}
        for node in self._text.get_inputs():
            if node.name in inputs:
                dtype = INTEGERS.get(node.type, np.int64)
                feed[node.name] = np.asarray(inputs[node.name], dtype)
        return self._text.run([graph.output], feed)[0]

    def image_features(self, pixels: np.ndarray | list[np.ndarray]) -> np.ndarray:
        graph, preprocess = self.settings.image, self.preprocess
        if graph is None or preprocess is None or self._image is None:
            raise InputError(f"{self.id} has no image tower; its {SETTINGS} names no image graph")
        session = self._image

        def batch(some: np.ndarray) -> np.ndarray:
            feed = some if graph.layout == "bytes" else preprocess.normalise(some)
            return session.run([graph.output], {graph.input: feed})[0]

        pixels = np.asarray(pixels)
        if not self.repeatable:
            return batch(pixels)
        return one_by_one(batch, [pixels[i : i + 1] for i in range(len(pixels))])

    def digest(self) -> str:
        """Return the fingerprint of the encoder that was exported, or a new one after changes."""
        whole = self.settings.fingerprint and self.settings.seal == seal(self.settings)
        return self.settings.fingerprint if whole else self.cache_digest()

    def cache_digest(self) -> str:
        files = set(_files(self.settings))
        checksums = sorted(sha256(self._folder / file) for file in files)
        parts = [*checksums, seal(self.settings)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _read(path: Path) -> ExportSettings:
    try:
        settings = ExportSettings.model_validate_json(path.read_bytes())
        if settings.image:
            TypeAdapter(Preprocess).validate_python(settings.image.preprocess)
    except (ValidationError, TypeError, OSError) as error:
        raise ArtefactError(
            f"{path} does not describe an encoder ({error}); export it again, or correct it"
        ) from None
    require_format(path, settings.format, FORMAT)
    return settings


def _files(settings: ExportSettings) -> list[str]:
    files = [settings.text.file, settings.text.tokenizer]
    if settings.image:
        files.append(settings.image.file)
    return [*files, *settings.sha256]


def _check_files(folder: Path, settings: ExportSettings) -> None:
    for file in dict.fromkeys(_files(settings)):
        if Path(file).name != file:
            raise ArtefactError(
                f"{folder / SETTINGS} names {file!r}; files lie in the folder itself"
            )
        if not (folder / file).is_file():
            raise ArtefactError(
                f"{folder} lacks {file}, which its {SETTINGS} names; copy or export it again"
            )
        expected = settings.sha256.get(file)
        if expected and sha256(folder / file) != expected:
            raise ArtefactError(
                f"{folder / file} is damaged: its checksum is not the one in {SETTINGS}; copy or"
                " export it again"
            )


def _provider(device: str | None) -> str:
    available = onnxruntime.get_available_providers()
    here = [name for name, provider in PROVIDERS.items() if provider in available]
    name = str(device or here[0]).split(":")[0]
    if name not in here:
        raise InputError(
            f"device={device!r} is no device that this onnxruntime runs on; pass one of"
            f" {', '.join(here)}"
        )
    return PROVIDERS[name]


def _session(path: Path, provider: str, inputs: list[str], output: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if provider == PROVIDERS["cpu"]:
        options.intra_op_num_threads = 1  # threads take items, as ``one_by_one`` says
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=[provider])
    except Exception as error:  # onnxruntime has no common class for what it raises
        raise ArtefactError(
            f"onnxruntime cannot load {path} ({' '.join(str(error).split())[:300]}); export it"
            " again"
        ) from None
    for wanted, nodes in ((inputs, session.get_inputs()), ([output], session.get_outputs())):
        names = [node.name for node in nodes]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ArtefactError(
                f"{path} has no {missing[0]!r}, which {SETTINGS} names; it has {', '.join(names)}"
            )
    return session


def _tokenizer(path: Path) -> Any:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exceptions
        raise ArtefactError(
            f"{path} is not a tokenizer ({error}); copy or export it again"
        ) from None
