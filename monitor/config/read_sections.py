"""Reads sections of a configuration from a file and the environment, and collects the problems in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from monitor.config.describe_problems import list_problems, report_misplaced_secret
from monitor.config.environment import SECRETS, Overrides, override
from monitor.config.kafka_and_redis import find_url_password
from monitor.config.yaml_file import read_yaml
from monitor.errors import Problem

Model = TypeVar("Model", bound=BaseModel)


class SectionReader:
    """A configuration file with the values of the environment, whose sections are read one after another.

    `tree`: the content, without secrets. `problems`: those of the sections that were read, to which a caller may add.

    Raises:
        ConfigError: the file cannot be read, or is not a YAML mapping without duplicate keys.
    """

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.tree = read_yaml(path)
        self._misplaced = tuple(_remove_secrets(self.tree))
        self._overrides = override(self.tree, environ)
        self._context = {"folder": path.parent}
        self.problems: list[Problem] = []

    def read(self, name: str, field: FieldInfo) -> tuple[Any, Any]:
        """Return a section, or None if it is invalid; and the section with its valid values only, or None."""
        model: Any = field.annotation
        if name not in self.tree and field.is_required():
            self.problems.append(Problem(name, "missing", str(field.description), "Add it."))
            return None, None
        section = self.validate(model, self.tree.get(name, {}), name)
        values = self.tree.get(name)
        partial = self.validate_keys(model, values) if section is None and isinstance(values, dict) else section
        return section, partial

    def validate(self, model: type[Model], value: object, key: str) -> Model | None:
        """Return a section or monitor. If it is invalid, note its problems and return None."""
        try:
            return model.model_validate(value, context=self._context)
        except ValidationError as error:
            self.problems += list_problems(error, key, model)
            return None

    def validate_keys(self, model: type[Model], values: Mapping[str, object]) -> Model:
        """Return a section or monitor with its valid values only, so that their conditions can be checked."""
        valid = {}
        for name, declared in model.model_fields.items():
            if name in values:
                form: Any = Annotated[declared.annotation, declared]
                adapter: TypeAdapter[Any] = TypeAdapter(form)
                with suppress(ValidationError):
                    valid[name] = adapter.validate_python(values[name], context=self._context)
        return model.model_construct(**valid)

    def list_problems(self) -> tuple[Problem, ...]:
        """Return all problems, also of the environment. If a value comes from a variable, its problem names this."""
        found = (*self._misplaced, *self._overrides.problems, *self.problems)
        return tuple(_add_variable(problem, self._overrides) for problem in found)


def _remove_secrets(tree: dict[str, Any]) -> Iterator[Problem]:
    """Remove the secrets from the tree, so that no later message can show them, and yield a problem for each."""
    for section, name in SECRETS:
        values = tree.get(section)
        if isinstance(values, dict) and values.pop(name, None) is not None:
            yield report_misplaced_secret(f"{section}.{name}")
    redis = tree.get("redis")
    if isinstance(redis, dict) and isinstance(redis.get("url"), str) and find_url_password(redis["url"]) is not None:
        yield report_misplaced_secret("redis.url")


def _add_variable(problem: Problem, overrides: Overrides) -> Problem:
    name = overrides.find_variable(problem.key)
    return replace(problem, remedy=f"{problem.remedy} The value comes from {name}.".strip()) if name else problem
