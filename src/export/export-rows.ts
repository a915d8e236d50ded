/**
 * Converts a list to a file's format, piece by piece. Only one page of rows, or one row group of Parquet, is
 * in memory. Server threads, command line.
 */
import type { ExportColumn, ExportRow } from './columns.ts';
import { writeCsvHead, writeCsvRow } from './csv.ts';

export const EXPORT_FORMATS = ['csv', 'jsonl', 'parquet'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/**
 * Maximum number of rows in a row group of Parquet. A smaller group is written when its texts have this many
 * characters.
 */
const GROUP = { rows: 5_000, characters: 8 << 20 } as const;

const NO_BYTES = new Uint8Array();

/**
 * Writes rows as a file of the format.
 * @param pages the pages of rows. The next page is requested after the previous page was written
 * @returns at least one piece for each page, possibly empty, so that the reader can stop
 */
export async function* exportRows(
  format: ExportFormat,
  columns: readonly ExportColumn[],
  pages: AsyncIterable<readonly ExportRow[]>,
): AsyncGenerator<Uint8Array> {
  if (format === 'parquet') return yield* exportParquet(columns, pages);
  if (format === 'csv') yield Buffer.from(writeCsvHead(columns));
  for await (const rows of pages) {
    const lines = rows.map((row) =>
      format === 'csv' ? writeCsvRow(columns, row) : `${JSON.stringify(row)}\n`,
    );
    yield Buffer.from(lines.join(''));
  }
}

async function* exportParquet(
  columns: readonly ExportColumn[],
  pages: AsyncIterable<readonly ExportRow[]>,
): AsyncGenerator<Uint8Array> {
  // Loaded only here, because most processes never write a Parquet file.
  const [{ ByteWriter }, { ParquetRows }] = await Promise.all([
    import('hyparquet-writer'),
    import('./parquet.ts'),
  ]);
  const file = new ParquetRows(columns, new ByteWriter());
  let group: ExportRow[] = [];
  let characters = 0;
  let isEmpty = true;
  for await (const rows of pages) {
    group.push(...rows);
    characters += rows.reduce((sum, row) => sum + JSON.stringify(row).length, 0);
    if (group.length < GROUP.rows && characters < GROUP.characters) {
      yield NO_BYTES;
      continue;
    }
    yield file.writeGroup(group);
    isEmpty = false;
    group = [];
    characters = 0;
  }
  // Some readers treat a file without a row group as damaged.
  if (group.length > 0 || isEmpty) yield file.writeGroup(group);
  yield file.finish();
}
