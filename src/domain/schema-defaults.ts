/**
 * The default values that a tool's schema declares for fields of its input. Some clients write these values into the
 * calls that they repeat: a model that left out `replace_all` reads in the next request that it sent
 * `replace_all: false`. Both calls mean the same. Pure; runs where stored copies are read, capture reader, command line.
 */
import { canonicalJson, isRawNumber } from '../std/exact-json.ts';
import type { TurnTool } from './turn.ts';

/** Maximum depth of nested fields whose defaults are known; deeper fields stay as they are. */
const DEPTH_MAX = 8;

/** The defaults of the tools that one request declares. */
export class SchemaDefaults {
  readonly #tools: readonly TurnTool[];
  /** The schemas of tools that have been asked for; null for a tool without a default. */
  readonly #schemas = new Map<string, object | null>();

  constructor(tools: readonly TurnTool[]) {
    this.#tools = tools;
  }

  /** Returns the input of a call without the fields that have their default values. */
  leaveOut(tool: string, input: unknown): unknown {
    if (typeof input !== 'object' || input === null) return input;
    let schema = this.#schemas.get(tool);
    if (schema === undefined) {
      const declared = this.#tools.find(({ name }) => name === tool)?.input_schema;
      schema = isObject(declared) && hasDefault(declared, DEPTH_MAX) ? declared : null;
      this.#schemas.set(tool, schema);
    }
    return schema === null ? input : leaveOut(schema, input, DEPTH_MAX);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawNumber(value);
}

function hasDefault(schema: unknown, depth: number): boolean {
  if (depth === 0 || !isObject(schema)) return false;
  const fields = isObject(schema.properties) ? Object.values(schema.properties) : [];
  return (
    fields.some(
      (field) => isObject(field) && (field.default !== undefined || hasDefault(field, depth - 1)),
    ) || hasDefault(schema.items, depth - 1)
  );
}

function leaveOut(schema: unknown, value: unknown, depth: number): unknown {
  if (depth === 0 || !isObject(schema)) return value;
  if (Array.isArray(value)) return value.map((item) => leaveOut(schema.items, item, depth - 1));
  if (!isObject(value) || !isObject(schema.properties)) return value;
  const { properties } = schema;
  const kept: [name: string, field: unknown][] = [];
  for (const [name, field] of Object.entries(value)) {
    const declared = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (isObject(declared) && declared.default !== undefined && isSame(declared.default, field)) continue;
    kept.push([name, leaveOut(declared, field, depth - 1)]);
  }
  return Object.fromEntries(kept);
}

/** Whether both are the same text, number or truth value. Lists and objects never count as defaults. */
function isSame(a: unknown, b: unknown): boolean {
  return isScalar(a) && isScalar(b) && canonicalJson(a) === canonicalJson(b);
}

function isScalar(value: unknown): boolean {
  return typeof value !== 'object' || isRawNumber(value);
}
