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


@schemathesis.check
def invalid_data_rejection(ctx, response, case):
    if case.meta is not None and not takes_laxly(case):
        negative_data_rejection(ctx, response, case)


# What no schema can say: the profile must exist, and the domain of the address must not be a reserved one.
REAL = {"task_profile": "coding", "email": "ann@acme.org"}


@schemathesis.hook
def map_case(context, case):
    """A valid request is one that the service can take."""
    if case.meta is not None and case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        case.body.update({name: value for name, value in REAL.items() if isinstance(case.body.get(name), str)})
    return case
