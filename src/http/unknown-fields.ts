/**
 * Finds the fields of a request that its endpoint does not know. The API ignores such fields. The
 * answer lists them in a header, so that callers notice mistyped names. Server threads.
 */
import { z } from 'zod';
import type { Endpoint } from '../contract/endpoint.ts';

/**
 * Maximum number of unknown fields that an answer names, of characters of a name, and of list items that are searched
 * for unknown fields.
 */
export const UNKNOWN_FIELDS = { names: 8, name_characters: 48, items: 20 };

/** Known fields at one position of a body; null: any field is allowed, or the fields are unknown. */
type Plan = { names: ReadonlyMap<string, Plan> } | { items: Plan } | null;

/** Finds the fields that one endpoint does not know. */
export class UnknownFields {
  readonly #query: ReadonlySet<string>;
  readonly #body: Plan;

  /** @param tenantNames names that every endpoint of its kind reads, in the query and in the body */
  constructor(endpoint: Endpoint, tenantNames: readonly string[]) {
    this.#query = new Set([...Object.keys(endpoint.query?.shape ?? {}), ...tenantNames]);
    const plan = planOf(endpoint.body);
    if (plan !== null && 'names' in plan) {
      const tenant = tenantNames.map((name) => [name, null] as const);
      this.#body = { names: new Map<string, Plan>([...tenant, ...plan.names]) };
    } else this.#body = plan;
  }

  /**
   * Lists the unknown fields of a request, with their names percent-encoded.
   * @param query raw, without `?`
   * @param body the body as JSON
   * @returns the value of `x-svc-warning`; null if all searched fields are known
   */
  describe(query: string, body: unknown): string | null {
    const found: string[] = [];
    if (query !== '') {
      for (const name of new Set(new URLSearchParams(query).keys()))
        if (!this.#query.has(name)) add(found, `query.${encodeName(name)}`);
    }
    collect(this.#body, body, 'body', found);
    if (found.length === 0) return null;
    const named = found.slice(0, UNKNOWN_FIELDS.names);
    return `unknown fields are ignored: ${named.join(', ')}${found.length > named.length ? ', and more' : ''}`;
  }
}

function add(found: string[], path: string): void {
  if (found.length <= UNKNOWN_FIELDS.names) found.push(path);
}

function collect(plan: Plan, value: unknown, path: string, found: string[]): void {
  if (plan === null || typeof value !== 'object' || value === null) return;
  if ('items' in plan) {
    if (!Array.isArray(value) || plan.items === null) return;
    const looked = Math.min(value.length, UNKNOWN_FIELDS.items);
    for (let at = 0; at < looked && found.length <= UNKNOWN_FIELDS.names; at++)
      collect(plan.items, value[at], `${path}[${at}]`, found);
    return;
  }
  if (Array.isArray(value)) return;
  for (const name in value) {
    const inner = plan.names.get(name);
    if (inner === undefined) add(found, `${path}.${encodeName(name)}`);
    else if (inner !== null)
      collect(inner, (value as Record<string, unknown>)[name], `${path}.${name}`, found);
    if (found.length > UNKNOWN_FIELDS.names) return;
  }
}

/** Encodes a name, because it comes from the request. */
function encodeName(name: string): string {
  return encodeURIComponent(name.slice(0, UNKNOWN_FIELDS.name_characters).toWellFormed());
}

function planOf(schema: z.ZodType | undefined): Plan {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return planOf(schema.def.innerType as z.ZodType);
  if (schema instanceof z.ZodPipe) return planOf(schema.def.in as z.ZodType);
  if (schema instanceof z.ZodArray) {
    const items = planOf(schema.def.element as z.ZodType);
    return items === null ? null : { items };
  }
  // A schema that keeps or refuses undeclared fields handles them itself.
  if (!(schema instanceof z.ZodObject) || schema.def.catchall !== undefined) return null;
  const names = new Map<string, Plan>();
  for (const [name, field] of Object.entries(schema.def.shape)) names.set(name, planOf(field as z.ZodType));
  return { names };
}
