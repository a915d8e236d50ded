"""Hooks that Schemathesis loads before it checks the API (schemathesis.toml): what is sent, and what counts as
refused."""
import copy

import jsonschema_rs
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection

NUMBER = {"type": "string", "pattern": r"^\s*[+-]?[\d_]*\.?\d*([eE][+-]?\d+)?\s*$"}
FLAG = {"enum": ["0", "1", "t", "f", "y", "n", "true", "false", "yes", "no", "on", "off"]}
# Other types that pydantic's lax mode accepts for a type. The contract accepts them, too
# (docs/api-decisions.md, Bodies), but the document names only the types that callers should send.
LAX = {
    "integer": [{"type": ["boolean", "number"]}, NUMBER],
    "number": [{"type": "boolean"}, NUMBER],
    "boolean": [{"enum": [0, 1]}, FLAG],
}


def lax(schema):
    """The schema of accepted values, made from the schema of values that should be sent."""
    if isinstance(schema, list):
        return [lax(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    loose = {name: part if name in ("enum", "const", "default", "example") else lax(part) for name, part in schema.items()}
    kind = schema.get("type")
    return {"anyOf": [loose, *copy.deepcopy(LAX[kind])]} if isinstance(kind, str) and kind in LAX else loose


def takes_laxly(case):
    content = case.operation.definition.raw.get("requestBody", {}).get("content", {})
    described = content.get("application/json", {}).get("schema")
    if described is None or case.media_type != "application/json" or isinstance(case.body, (bytes, schemathesis.core.NotSet)):
        return False
    whole = {**lax(described), "components": {"schemas": lax(case.operation.schema.raw_schema["components"]["schemas"])}}
    return jsonschema_rs.validator_for(whole).is_valid(case.body)


# The service ignores unknown parameters in the query. Schemathesis knows that for most cases, but not for a case
# whose path names a resource that an earlier case created.
UNKNOWN = "x-schemathesis-unknown-property"


# The HTTP server refuses a head that is too long before an operation sees it, whatever the operation is.
HEAD_TOO_LARGE = 431


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for item in raw_schema["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and "responses" in operation:
                operation["responses"].setdefault(str(HEAD_TOO_LARGE), {"description": "The request head is too large"})


@schemathesis.check
def invalid_data_rejection(ctx, response, case):
    is_ignored = UNKNOWN in (case.query or {}) or response.status_code == HEAD_TOO_LARGE
    if case.meta is not None and not takes_laxly(case) and not is_ignored:
        negative_data_rejection(ctx, response, case)


REAL = {"task_profile": "coding", "email": "ann@acme.org", "time_zone": "Europe/Berlin", "query": "is:bad", "of_query": ""}
# The requirements of each kind of destination. There is no `id`, because an id would have to name an existing
# destination of the alert.
DESTINATIONS = {"email": {"to": ["ann@acme.org"]}, "slack": {"url": "https://acme.org/hook"}}
DESTINATIONS["webhook"] = {**DESTINATIONS["slack"], "secret": "a secret that is long enough to sign with"}
# A change of marks has at least one field.
MARKS = {"mark", "tags", "add_tags", "remove_tags", "note", "feedback_score"}


@schemathesis.hook
def map_case(context, case):
    """A valid request is one that the service can accept."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return case
    if case.path == "/capture/search" and not any(map(str.isalnum, str(case.query.get("q")))):
        # A search needs a word.
        case.query["q"] = "word"
    if isinstance(case.body, dict):
        for part in (case.body, case.body.get("quiet")):
            if isinstance(part, dict):
                names = REAL if "/alerts" in case.path else REAL.keys() - {"query", "of_query"}
                part.update({name: REAL[name] for name in names if isinstance(part.get(name), str)})
        if case.path == "/capture/student/names" and isinstance(case.body.get("name"), str):
            case.body["name"] = "Code fixer"
        if case.path.endswith(("/mark", "/marks")) and not MARKS & case.body.keys():
            case.body["mark"] = "good"
        if isinstance(case.body.get("destinations"), list):
            kinds = [one.get("kind") for one in case.body["destinations"] if isinstance(one, dict)]
            case.body["destinations"] = [{"kind": kind, **DESTINATIONS[kind]} for kind in kinds if kind in DESTINATIONS]
    return case
