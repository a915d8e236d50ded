/**
 * Writes rows as Parquet, one row group at a time. Only the rows of one group, and the metadata of all groups
 * for the file's end, are in memory. Server threads, command line.
 */
import { type ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { type ColumnKind, type ExportColumn, type ExportRow, textOf } from './columns.ts';

type Schema = ConstructorParameters<typeof ParquetWriter>[0]['schema'];
type SchemaElement = Schema[number];

const ELEMENTS: Readonly<Record<ColumnKind, Omit<SchemaElement, 'name'>>> = {
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  json: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  integer: { type: 'INT64' },
  number: { type: 'DOUBLE' },
  flag: { type: 'BOOLEAN' },
  time: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
};

export class ParquetRows {
  readonly #columns: readonly ExportColumn[];
  readonly #bytes: ByteWriter;
  readonly #file: ParquetWriter;

  /** @param bytes an empty writer */
  constructor(columns: readonly ExportColumn[], bytes: ByteWriter) {
    const elements = columns.map(({ name, kind }): SchemaElement => {
      return { name, repetition_type: 'OPTIONAL', ...ELEMENTS[kind] };
    });
    const schema: Schema = [{ name: 'root', num_children: columns.length }, ...elements];
    this.#columns = columns;
    this.#bytes = bytes;
    this.#file = new ParquetWriter({ writer: bytes, schema, createdBy: 'understudy' });
  }

  /** Writes a row group. @returns its bytes */
  writeGroup(rows: readonly ExportRow[]): Uint8Array {
    const columnData = this.#columns.map(({ name, kind }) => ({
      name,
      data: rows.map((row) => cellOf(row[name], kind)),
    }));
    void this.#file.write({ columnData, rowGroupSize: Math.max(1, rows.length) });
    return this.#take();
  }

  /** Ends the file. @returns its last bytes */
  finish(): Uint8Array {
    void this.#file.finish();
    return this.#take();
  }

  #take(): Uint8Array {
    const taken = this.#bytes.getBytes().slice();
    this.#bytes.index = 0;
    return taken;
  }
}

function cellOf(value: unknown, kind: ColumnKind): unknown {
  if (value === null || value === undefined) return null;
  switch (kind) {
    case 'integer':
      return typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER
        ? BigInt(Math.round(value))
        : null;
    case 'number':
      return typeof value === 'number' ? value : null;
    case 'flag':
      return typeof value === 'boolean' ? value : null;
    case 'time':
      return typeof value === 'string' && !Number.isNaN(Date.parse(value)) ? new Date(value) : null;
    default:
      return textOf(value);
  }
}
