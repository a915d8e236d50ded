/**
 * A well-formed request that violates the schema, and the 422 that reports it (document 1, Validation error
 * shapes). Any thread.
 */
import { z } from 'zod';

/** One error in a request. */
export interface Violation {
  /** pydantic's code of the error (`missing`, `string_too_long`, …). */
  type: string;
  /** Begins with `body`, `query` or `path`. */
  loc: (string | number)[];
  msg: string;
  /** The offending value; never a secret. */
  input?: unknown;
  ctx?: Record<string, unknown>;
}

/**
 * Ends a request with 422. Handlers throw it for rules that no schema can express, such as an unknown
 * profile.
 */
export class SchemaViolation extends Error {
  readonly violations: readonly Violation[];

  constructor(violations: readonly Violation[]) {
    super(violations.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; '));
    this.name = 'SchemaViolation';
    this.violations = violations;
  }
}

/** Makes the 422 for a field whose value a schema cannot check. */
export function valueViolation(loc: Violation['loc'], reason: string, input: unknown): SchemaViolation {
  const msg = `Value error, ${reason}`;
  return new SchemaViolation([{ type: 'value_error', loc, msg, input, ctx: { error: reason } }]);
}

const violationBody = z
  .object({
    loc: z.array(z.union([z.string(), z.int()])),
    msg: z.string(),
    type: z.string(),
    input: z.unknown().optional(),
    ctx: z.looseObject({}).optional(),
  })
  .meta({ id: 'ValidationError' });

/** Body of a 422 (document 1). */
export const violationsBody = z
  .object({ detail: z.array(violationBody) })
  .meta({ id: 'HTTPValidationError' });
