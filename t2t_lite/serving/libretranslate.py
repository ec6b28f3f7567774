"""LibreTranslate's API (https://docs.libretranslate.com/api), so that its clients work with this server."""

import urllib.parse
from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal, TypeVar

import pydantic
from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from python_multipart.multipart import parse_options_header

from t2t_lite.decoding.translator import Hypothesis
from t2t_lite.serving import languages
from t2t_lite.serving.answering import Answering, without_delay
from t2t_lite.serving.html import Html
from t2t_lite.serving.models import AUTO
from t2t_lite.serving.sentences import split_sentences
from t2t_lite.serving.served_model import ServedModel, Task

_TAGS: list[str | Enum] = ["LibreTranslate"]
_MAX_FIELDS = 1000
_Asked = TypeVar("_Asked", bound=pydantic.BaseModel)
_DETECTED_CHARACTERS = 2000  # enough to detect the language
_FORM = "application/x-www-form-urlencoded"
_HTML_COST = 10  # one character of HTML takes as long as this many of plain text


class _Asks(pydantic.BaseModel):
    """The base class of requests. Fields that are null or empty count as missing, except the text."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_empty_fields(cls, values: Any) -> Any:  # noqa: ANN401  not validated yet
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if name == "q" or value not in (None, "")}


class TranslateRequest(_Asks):
    """One or several texts to translate."""

    q: str | list[str] = pydantic.Field(description="a text of any number of paragraphs, or a list of texts")
    source: str = pydantic.Field(AUTO, description='language code of the text; "auto" detects it')
    target: str = pydantic.Field(description="language code of the translation")
    format: Literal["text", "html"] = pydantic.Field("text", description="html keeps tags")
    alternatives: int = pydantic.Field(0, ge=0, description="number of alternative translations")
    api_key: str = ""


class DetectRequest(_Asks):
    """A text in an unknown language."""

    q: str
    api_key: str = ""


class _Document:
    """One text of a request, split into sentences. `html` is the parsed text if it is HTML."""

    def __init__(self, text: str, model: ServedModel, html: Html | None) -> None:
        self._html = html
        self._parts = [split_sentences(part, *model.splitting) for part in (html.texts if html else [text])]
        self.sentences = [sentence for part in self._parts for sentence in part.sentences]

    def translations(self, beams: Sequence[Sequence[Hypothesis]], number: int) -> list[str]:
        """Returns up to `number` different translations, best first, from those of the sentences."""
        translations = []
        for rank in range(min(number, max(map(len, beams), default=1))):
            rest = iter([beam[min(rank, len(beam) - 1)].text for beam in beams])
            parts = [part.joined([next(rest) for _ in part.sentences]) for part in self._parts]
            translations.append(self._html.with_texts(parts) if self._html else parts[0])
        return list(dict.fromkeys(translations))


def add_endpoints(app: FastAPI, answering: Answering) -> None:
    models = answering.models
    source, target = models.expected_languages

    @app.post(
        "/translate",
        tags=_TAGS,
        openapi_extra=_takes(TranslateRequest, {"q": "A dog runs.", "source": source, "target": target}),
    )
    async def translate(request: Request) -> JSONResponse:
        """Translates texts. Takes JSON, a form, or a query string."""
        asked = await _read(request, TranslateRequest)
        answering.check_key(request, asked.api_key)
        return JSONResponse(await _translated(answering, request, asked))

    @app.get("/languages", tags=_TAGS)
    @app.post("/languages", include_in_schema=False)
    async def known_languages() -> JSONResponse:
        """Lists the languages, each with its target languages."""
        models.check_ready()
        targets: dict[str, list[str]] = {code: [] for code in (*models.sources, *models.targets)}
        for model in models.translators:
            if model.target_language not in targets[model.source_language]:
                targets[model.source_language].append(model.target_language)
        names = {code: languages.language_name(code) for code in targets}
        return JSONResponse([{"code": code, "name": names[code], "targets": of} for code, of in targets.items()])

    @app.post("/detect", tags=_TAGS, openapi_extra=_takes(DetectRequest, {"q": "Ein Hund rennt."}))
    async def detect(request: Request) -> JSONResponse:
        """Detects which of the languages of this server a text is in."""
        asked = await _read(request, DetectRequest)
        answering.check_key(request, asked.api_key)
        models.check_ready()
        if not asked.q:
            raise HTTPException(400, "Invalid request: missing q parameter")
        if not (known := tuple(dict.fromkeys([*models.sources, *models.targets]))):
            raise HTTPException(400, "no model of this server has languages")
        detected = await run_in_threadpool(languages.detect, asked.q[:_DETECTED_CHARACTERS], known)
        return JSONResponse([each._asdict() for each in detected])

    @app.get("/frontend/settings", tags=_TAGS)
    async def settings() -> JSONResponse:
        """Returns the settings for LibreTranslate's web page."""
        models.check_ready()
        first = models.translators[0] if models.translators else None
        codes = (first.source_language, first.target_language) if first else ("", "")
        source, target = ({"code": code, "name": languages.language_name(code)} for code in codes)
        return JSONResponse(
            {
                "apiKeys": answering.keys.are_needed,
                "keyRequired": answering.keys.are_needed,
                "charLimit": -1,
                "frontendTimeout": 500,
                "filesTranslation": False,
                "suggestions": False,
                "supportedFilesFormat": [],
                "language": {"source": source, "target": target},
            }
        )


async def _translated(answering: Answering, request: Request, asked: TranslateRequest) -> dict[str, Any]:
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    answering.check_lines(len(texts))
    size = sum(map(len, texts)) * (_HTML_COST if asked.format == "html" else 1)
    sample = " ".join(text[:_DETECTED_CHARACTERS] for text in texts[:20])[:_DETECTED_CHARACTERS]
    model, detected = answering.models.translation(asked.source, asked.target, sample)

    def read() -> list[_Document]:
        pages = [Html(text) if asked.format == "html" else None for text in texts]
        # Check before splitting, which takes longer.
        answering.check_lines(sum(len(page.texts) for page in pages if page))
        return [_Document(text, model, page) for text, page in zip(texts, pages)]

    documents = await without_delay(size, read)
    sentences = [sentence for document in documents for sentence in document.sentences]
    answering.check_lines(len(sentences))
    counted = await without_delay(size, model.texts, sentences)
    task = Task(model.settings({}, asked.alternatives + 1), asked.alternatives + 1)
    results = iter(await answering.results(request, model, task, counted))
    beams = [[next(results).hypotheses for _ in document.sentences] for document in documents]

    def join() -> list[list[str]]:
        return [document.translations(each, asked.alternatives + 1) for document, each in zip(documents, beams)]

    translations = await without_delay(size, join)
    # The sentences with a translation that is incomplete because it reached the maximum length.
    cut = [
        [sentence for sentence, beam in zip(document.sentences, each) if any(found.is_cut for found in beam)]
        for document, each in zip(documents, beams)
    ]
    content: dict[str, list[Any]] = {"translatedText": [best for best, *_ in translations]}
    if asked.alternatives:
        content["alternatives"] = [others for _, *others in translations]
    if any(cut):
        content["cut"] = cut
    if asked.source.lower() == AUTO and detected is not None:
        content["detectedLanguage"] = [detected._asdict()] * len(texts)
    return {name: each[0] for name, each in content.items()} if isinstance(asked.q, str) else content


async def _read(request: Request, kind: type[_Asked]) -> _Asked:
    """Returns the values in a request: in its body (JSON or a form) and its query string.

    Raises HTTPException if they are invalid for the endpoint.
    """
    body = await request.body()
    content_type = request.headers.get("content-type", "").lower().partition(";")[0].strip()
    query = request.url.query
    try:
        if content_type == "multipart/form-data":
            _, options = parse_options_header(request.headers["content-type"])
            if options.get(b"charset", b"utf-8").lower() != b"utf-8":  # decoding some charsets takes minutes
                raise HTTPException(400, "Invalid request: the charset of a form must be utf-8")
            form = await request.form(max_files=0, max_fields=_MAX_FIELDS)
            values = _values(form.multi_items())
        elif content_type == "application/json":
            if not query:
                return kind.model_validate_json(body)
            values = pydantic.TypeAdapter(dict[str, Any]).validate_json(body)
        elif not body or (content_type in ("", _FORM) and body.lstrip()[:1] != b"{"):
            values = _values(_fields(body.decode("utf-8", errors="replace")))
        else:  # such as text/plain, which pages of other origins may send
            raise HTTPException(415, "send a form, or JSON with the header Content-Type: application/json")
        return kind.model_validate(_values(_fields(query)) | values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise HTTPException(400, f"Invalid request: missing {where} parameter") from None
        raise HTTPException(400, f"Invalid request: {f'{where}: ' if where else ''}{first['msg']}") from None


def _fields(text: str) -> list[tuple[str, str]]:
    """Returns the names and values in a form or query string. Raises HTTPException if there are too many."""
    try:
        return urllib.parse.parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise HTTPException(400, f"Invalid request: more than {_MAX_FIELDS} fields") from None


def _values(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the value of each name in a form or query; a list if a name occurs more than once."""
    lists: dict[str, list[Any]] = {}
    for name, value in items:
        lists.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in lists.items()}


def _takes(kind: type[pydantic.BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """Returns the OpenAPI description of a body that the endpoint reads itself."""
    content = {"schema": kind.model_json_schema(), "example": example}
    forms = ("application/json", _FORM, "multipart/form-data")
    return {"requestBody": {"required": True, "content": dict.fromkeys(forms, content)}}
