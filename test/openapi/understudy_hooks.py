"""What Schemathesis loads before it checks the API (schemathesis.toml): what is sent, and what counts as refused."""
import copy

import jsonschema_rs
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection

NUMBER = {"type": "string", "pattern": r"^\s*[+-]?[\d_]*\.?\d*([eE][+-]?\d+)?\s*$"}
FLAG = {"enum": ["0", "1", "t", "f", "y", "n", "true", "false", "yes", "no", "on", "off"]}
# What pydantic's lax mode takes for a type. The contract has it so (docs/api-decisions.md, Bodies); the document says what callers
# should send.
LAX = {
    "integer": [{"type": ["boolean", "number"]}, NUMBER],
    "number": [{"type": "boolean"}, NUMBER],
    "boolean": [{"enum": [0, 1]}, FLAG],
}


def lax(schema):
    """The schema of what is taken where `schema` says what should be sent."""
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


# The service ignores what the query has beside its parameters. Schemathesis knows that for most cases, but not for one whose
# path is that of a resource made before.
UNKNOWN = "x-schemathesis-unknown-property"


@schemathesis.check
def invalid_data_rejection(ctx, response, case):
    if case.meta is not None and not takes_laxly(case) and UNKNOWN not in (case.query or {}):
        negative_data_rejection(ctx, response, case)


# What no schema can say: the profile and the time zone must exist, and the domain of the address must not be a reserved one.
REAL = {"task_profile": "coding", "email": "ann@acme.org", "time_zone": "Europe/Berlin"}
# A change of marks says something.
MARKS = {"mark", "tags", "add_tags", "remove_tags", "note", "feedback_score"}


@schemathesis.hook
def map_case(context, case):
    """A valid request is one that the service can take."""
    if case.meta is not None and case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        for part in (case.body, case.body.get("quiet")):
            if isinstance(part, dict):
                part.update({name: value for name, value in REAL.items() if isinstance(part.get(name), str)})
        if case.path.endswith(("/mark", "/marks")) and not MARKS & case.body.keys():
            case.body["mark"] = "good"
    return case
