/** The columns of an exported list, and the value of each in a row. Pure; server threads, command line. */
import { z } from 'zod';

/** `time`: RFC 3339 text. `json`: anything else, as JSON. */
export type ColumnKind = 'text' | 'integer' | 'number' | 'flag' | 'time' | 'json';

export interface ExportColumn {
  name: string;
  kind: ColumnKind;
}

/** A row by column name. Fields without a column are left out. */
export type ExportRow = Readonly<Record<string, unknown>>;

/** A part of JSON Schema. */
interface FieldSchema {
  type?: string | string[];
  anyOf?: FieldSchema[];
  enum?: unknown[];
}

interface RowSchema {
  properties?: Record<string, unknown>;
  items?: RowSchema;
  $ref?: string;
  $defs?: Record<string, RowSchema>;
}

/** The columns of the rows in a list's answer. @param field the name of the field with the rows */
export function columnsIn(answer: z.ZodType, field: string): ExportColumn[] {
  const root = z.toJSONSchema(answer, { io: 'output' }) as RowSchema;
  const resolve = (schema: RowSchema): RowSchema =>
    schema.$ref === undefined ? schema : root.$defs![schema.$ref.split('/').at(-1)!]!;
  const rows = resolve(root).properties![field] as RowSchema;
  return columnsOf(resolve(rows.items!));
}

/** The columns of rows that a JSON schema describes, in its order. */
function columnsOf({ properties = {} }: RowSchema): ExportColumn[] {
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    kind: kindOf(name, schema as FieldSchema),
  }));
}

function kindOf(name: string, schema: FieldSchema): ColumnKind {
  const choices = schema.anyOf ?? [schema];
  const types = new Set(
    choices.flatMap(({ type, enum: values }) => type ?? (values === undefined ? 'object' : 'string')),
  );
  types.delete('null');
  const [type, ...others] = types;
  if (others.length > 0) return 'json';
  switch (type) {
    case 'string':
      return name.endsWith('_at') ? 'time' : 'text';
    case 'integer':
    case 'number':
      return type;
    case 'boolean':
      return 'flag';
    default:
      return 'json';
  }
}

/** A value as text; null: the field has no value. */
export function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}
