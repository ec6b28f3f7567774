"""Lets methods that take lists of texts accept a single text as well."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload

from t2t_lite.arrays import Forwarded
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    from t2t_lite.decoding.line_search import Hypothesis

_Result = TypeVar("_Result")


class OfTexts(Protocol[_Result]):
    """The type of a method with `or_a_single_text`: it returns one result for a single text, and a list for a list."""

    @overload
    def __call__(self, text: str, /, *more: Forwarded, **options: Forwarded) -> _Result: ...

    @overload
    def __call__(self, texts: Sequence[str], /, *more: Forwarded, **options: Forwarded) -> list[_Result]: ...

    @overload
    def __call__(self, **options: Forwarded) -> Any: ...  # noqa: ANN401  texts passed by keyword


class Translates(Protocol):
    """The type of `translate`, which returns texts or, with `return_scores`, hypotheses."""

    @overload
    def __call__(self, lines: str, return_scores: Literal[False] = ..., **options: Forwarded) -> str: ...

    @overload
    def __call__(
        self, lines: Sequence[str], return_scores: Literal[False] = ..., **options: Forwarded
    ) -> list[str]: ...

    @overload
    def __call__(self, lines: str, return_scores: Literal[True], **options: Forwarded) -> "Hypothesis": ...

    @overload
    def __call__(
        self, lines: Sequence[str], return_scores: Literal[True], **options: Forwarded
    ) -> "list[Hypothesis]": ...


def or_a_single_text(
    *names: str, lists: Sequence[str] = ()
) -> Callable[[Callable[..., list[_Result]]], OfTexts[_Result]]:
    """Returns a decorator that lets a method that takes lists of texts accept single texts as well.

    Without it, a string would be treated as a sequence of one-character texts. If all arguments in `names` are single
    texts, the decorated method returns one result instead of a list. It raises TypeError if some of them are single
    texts and others are lists, and UserError if one is neither.

    Args:
      names: the arguments that hold texts; missing ones and None are ignored.
      lists: the arguments that hold one list per text; with a single text, they hold that text's list.
    """

    def decorate(method: Callable[..., list[_Result]]) -> Any:  # noqa: ANN401  the method, of another type
        signature = inspect.signature(method)

        @functools.wraps(method)
        def of_texts(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (what the method returns)
            bound = signature.bind(*args, **kwargs)
            for name in names:
                if name in bound.arguments and bound.arguments[name] is not signature.parameters[name].default:
                    what = f"{method.__name__}: `{name}`"
                    bound.arguments[name] = checked_texts(what, bound.arguments[name])
            present = [name for name in names if bound.arguments.get(name) is not None]
            single = [name for name in present if isinstance(bound.arguments[name], str)]
            if not single:
                sizes = {name: len(bound.arguments[name]) for name in present}
                if len(set(sizes.values())) > 1:
                    listed = " but ".join(f"{size} {name}" for name, size in sizes.items())
                    raise UserError(f"{method.__name__}: {listed}; pass as many of each")
                return method(*bound.args, **bound.kwargs)
            if single != present:
                others = ", ".join(name for name in present if name not in single)
                raise TypeError(
                    f"{method.__name__}: {', '.join(single)} is a string but {others} is not; "
                    f"pass both as strings or both as lists"
                )
            lists_given = [name for name in lists if bound.arguments.get(name) is not None]
            bound.arguments.update({name: [bound.arguments[name]] for name in (*single, *lists_given)})
            (result,) = method(*bound.args, **bound.kwargs)
            return result

        return of_texts

    return decorate


def checked_texts(what: str, given: object) -> str | Sequence[str]:
    """Returns a text or a sequence of texts without the line end of each, as `readlines()` leaves it.

    Raises UserError if `given` is something else, or a text has several lines, because a model reads one sentence.
    """
    if isinstance(given, str):
        return _without_line_end(what, given)
    if isinstance(given, bytes | bytearray | Mapping) or not (
        hasattr(given, "__len__") and hasattr(given, "__getitem__")
    ):
        raise UserError(f"{what} is {_named(given)}; pass a text or a list of texts")
    for number, text in enumerate(cast(Sequence[object], given)):
        if not isinstance(text, str):
            raise UserError(f"{what}[{number}] is {_named(text)}; pass texts")
    if not any("\n" in text for text in cast(Sequence[str], given)):
        return cast(Sequence[str], given)
    return [_without_line_end(f"{what}[{number}]", text) for number, text in enumerate(cast(Sequence[str], given))]


def _without_line_end(what: str, text: str) -> str:
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if "\n" in text:
        raise UserError(f"{what} has several lines; pass each line as a text, as text.splitlines() returns them")
    return text


def _named(given: object) -> str:
    return "None" if given is None else f"of the type {type(given).__name__}"


def translates(method: Callable[..., Any]) -> Translates:
    """Decorates `translate` with `or_a_single_text`; a single text takes one prefix and one list of phrases."""
    decorated: Any = or_a_single_text("lines", "prefixes", lists=("phrases",))(method)
    return decorated
