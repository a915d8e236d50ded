/**
 * `node tools/client-types.ts`: generates src/client/operation-types.ts, which has the types of the request and the
 * response of each operation of the API. These types do not refer to schemas, so an agent's project compiles against
 * the client without a validator. A test compares the file with the contract. Development, main thread.
 */

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { OPERATIONS } from '../src/client/operations.ts';
import type { Endpoint } from '../src/contract/endpoint.ts';
import { EVALUATE } from '../src/contract/evaluate.ts';
import { EXPERIMENTS } from '../src/contract/experiments.ts';
import { FINDINGS } from '../src/contract/findings.ts';
import { health } from '../src/contract/health.ts';
import { PATTERNS } from '../src/contract/patterns.ts';
import { PROFILES } from '../src/contract/profiles.ts';
import { RETRIEVE } from '../src/contract/retrieve.ts';
import { RUN_MARKS_API } from '../src/contract/run-marks.ts';
import { RUN_RECORDS } from '../src/contract/run-records.ts';
import { RUNS } from '../src/contract/runs.ts';
import { STREAM } from '../src/contract/stream.ts';
import { TRACES } from '../src/contract/traces.ts';
import { MONITOR_NAMES } from '../src/domain/monitors/names.ts';

export const CLIENT_TYPES_FILE = fileURLToPath(new URL('../src/client/operation-types.ts', import.meta.url));

const GROUPS = [
  EVALUATE,
  EXPERIMENTS,
  FINDINGS,
  PATTERNS,
  PROFILES,
  RETRIEVE,
  RUN_MARKS_API,
  RUN_RECORDS,
  RUNS,
  STREAM,
  TRACES,
];
const ENDPOINTS: Endpoint[] = [health, ...GROUPS.flatMap((group): Endpoint[] => Object.values(group))];
const SUCCESSES = [200, 201, 202, 204];

const HEAD = `/**
 * The request and the answer of each operation of the API, with the names of the wire format. \`node tools/client-types.ts\` makes this file from
 * src/contract. Types; any thread.
 */

`;

interface Schema {
  [keyword: string]: unknown;
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  $defs?: Record<string, Schema>;
}

/** Keywords that limit values but do not change the TypeScript type. */
const LIMITS = new Set([
  '$schema',
  'default',
  'description',
  'format',
  'id',
  'maxItems',
  'maxLength',
  'maxProperties',
  'maximum',
  'exclusiveMaximum',
  'minItems',
  'minLength',
  'minProperties',
  'minimum',
  'exclusiveMinimum',
  'multipleOf',
  'pattern',
  'propertyNames',
  'title',
  'uniqueItems',
]);

/** Prints types for schemas of one direction (requests or responses), and collects the named schemas that they use. */
class Printer {
  readonly #io: 'input' | 'output';
  readonly types = new Map<string, string>();

  constructor(io: 'input' | 'output') {
    this.#io = io;
  }

  /** Returns the TypeScript type of a schema. @throws Error for an unknown keyword */
  print(schema: z.ZodType): string {
    const { $defs = {}, ...own } = z.toJSONSchema(schema, { io: this.#io }) as Schema;
    for (const [name, definition] of Object.entries($defs)) this.#declare(name, definition);
    if (typeof own.id !== 'string') return this.#type(own);
    this.#declare(own.id, own);
    return this.#nameOf(own.id);
  }

  #declare(name: string, definition: Schema): void {
    this.types.set(this.#nameOf(name), this.#type(definition));
  }

  /** Types of requests get their own names, because requests may omit fields with a default and responses have them. */
  #nameOf(name: string): string {
    return this.#io === 'input' ? `${name}Input` : name;
  }

  #type(schema: Schema): string {
    const { $ref, const: constant, enum: values, anyOf, oneOf, allOf } = schema;
    if (typeof $ref === 'string') return this.#nameOf($ref.split('/').at(-1)!);
    if (constant !== undefined) return JSON.stringify(constant);
    if (Array.isArray(values)) return printValues(values);
    if (Array.isArray(allOf)) return allOf.map((part: Schema) => `(${this.#type(part)})`).join(' & ');
    const choices = (anyOf ?? oneOf) as Schema[] | undefined;
    // If a schema has `properties`, its `anyOf` only says which fields must occur together. The generated types omit
    // this.
    if (choices !== undefined && schema.properties === undefined) {
      return [...new Set(choices.map((choice) => this.#type(choice)))].join(' | ');
    }
    const { type } = schema;
    if (Array.isArray(type)) return type.map((each) => this.#type({ ...schema, type: each })).join(' | ');
    return this.#plain(schema);
  }

  #plain(schema: Schema): string {
    switch (schema.type) {
      case 'string':
      case 'boolean':
      case 'null':
        return schema.type;
      case 'number':
      case 'integer':
        return 'number';
      case 'array':
        return this.#array(schema);
      case 'object':
        return this.#object(schema);
      default: {
        const unknown = Object.keys(schema).find((keyword) => !LIMITS.has(keyword));
        if (unknown !== undefined)
          throw new Error(`this script does not know the keyword ${unknown} of a schema`);
        return 'unknown';
      }
    }
  }

  #array({ items, prefixItems }: Schema): string {
    if (Array.isArray(prefixItems))
      return `[${prefixItems.map((item: Schema) => this.#type(item)).join(', ')}]`;
    return items === undefined ? 'unknown[]' : `(${this.#type(items as Schema)})[]`;
  }

  #object({ properties = {}, required = [], additionalProperties }: Schema): string {
    const fields = Object.entries(properties).map(([name, field]) => {
      const isRequired = required.includes(name);
      const words = field.description === undefined ? '' : `/** ${field.description} */\n`;
      const absent = isRequired || this.#io === 'output' ? '' : ' | undefined';
      return `${words}${JSON.stringify(name)}${isRequired ? '' : '?'}: ${this.#type(field)}${absent};`;
    });
    const isOpen = typeof additionalProperties === 'object' && additionalProperties !== null;
    const rest = isOpen ? this.#type(additionalProperties as Schema) : 'unknown';
    if (fields.length === 0) return `Record<string, ${rest}>`;
    const numbers = this.#monitorNumbers(properties, required);
    if (numbers !== undefined) return numbers;
    return isOpen ? `${printFields(fields)} & Record<string, ${rest}>` : printFields(fields);
  }

  /** Prints the type of an object with a number for each monitor; undefined if the fields are others. */
  #monitorNumbers(properties: Record<string, Schema>, required: readonly string[]): string | undefined {
    const types = new Set(MONITOR_NAMES.map((name) => properties[name] && this.#type(properties[name])));
    if (Object.keys(properties).length !== MONITOR_NAMES.length || types.size > 1) return undefined;
    if (!types.has('number')) return undefined;
    if (required.length > 0) return 'Record<MonitorName, number>';
    return `Partial<Record<MonitorName, number${this.#io === 'output' ? '' : ' | undefined'}>>`;
  }
}

/** Prints a union of literals. If it contains all monitors' names, they are replaced by the name of their type. */
function printValues(values: readonly unknown[]): string {
  const names: readonly unknown[] = MONITOR_NAMES;
  const hasAll = names.every((name) => values.includes(name));
  const others = hasAll ? values.filter((value) => !names.includes(value)) : values;
  return [...others.map((value) => JSON.stringify(value)), ...(hasAll ? ['MonitorName'] : [])].join(' | ');
}

/** Prints the fields in the way in which Biome formats them: on one line if they fit and no field has a comment. */
function printFields(fields: readonly string[]): string {
  const separator = fields.some((field) => field.startsWith('/**')) ? '\n' : ' ';
  return `{${separator}${fields.join(separator)}${separator}}`;
}

/** Returns the text of the generated file, before formatting. */
export function writeClientTypes(): string {
  const input = new Printer('input');
  const output = new Printer('output');
  const operations = Object.entries(OPERATIONS).map(([name, { method, path }]) => {
    const endpoint = ENDPOINTS.find((each) => each.method === method && each.path === path);
    if (endpoint === undefined) throw new Error(`the contract has no ${method} ${path}`);
    return `${name}: { request: ${printRequest(endpoint, input)}; answer: ${printAnswer(endpoint, output)} };`;
  });
  const declared = [...output.types, ...input.types].map(([name, type]) =>
    type.startsWith('{') && type.endsWith('}')
      ? `export interface ${name} ${type}`
      : `export type ${name} = ${type};`,
  );
  const tenant = `/** The tenant of a request with a static key or a JWT. A customer's key determines its tenant. */
export interface TenantNames {
  org_id?: string | undefined;
  project_id?: string | undefined;
}`;
  const monitors = `export type MonitorName = ${MONITOR_NAMES.map((name) => `'${name}'`).join(' | ')};`;
  return `${HEAD}${[tenant, monitors, ...declared].join('\n\n')}\n\nexport interface Operations {\n${operations.join('\n')}\n}\n`;
}

/** Prints the type of a request, with those of `params`, `query` and `body` that the endpoint declares. */
function printRequest({ params, query, body }: Endpoint, input: Printer): string {
  const parts = [
    ...(params === undefined ? [] : [`params: ${input.print(params)};`]),
    `query?: ${query === undefined ? '' : `${input.print(query)} & `}TenantNames | undefined;`,
    ...(body instanceof z.ZodType ? [`body: ${input.print(body)} & TenantNames;`] : []),
  ];
  return printFields(parts);
}

function printAnswer({ replies }: Endpoint, output: Printer): string {
  const bodies = SUCCESSES.flatMap((status) => {
    const reply = (replies as Endpoint['replies'] & Record<number, { schema?: z.ZodType }>)[status];
    if (reply === undefined) return [];
    return [reply.schema === undefined ? 'undefined' : output.print(reply.schema)];
  });
  return [...new Set(bodies)].join(' | ');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(CLIENT_TYPES_FILE, writeClientTypes());
