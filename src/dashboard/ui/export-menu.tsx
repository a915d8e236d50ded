/** Links that download the shown list as a file, one for each format. Browser. */

const WORDS = {
  csv: 'CSV',
  jsonl: 'JSON lines',
  parquet: 'Parquet',
  otlp: 'OpenTelemetry (JSON lines)',
} as const;
type Format = keyof typeof WORDS;

const FORMATS: readonly Format[] = ['csv', 'jsonl', 'parquet'];

/** A menu that exports a list as a file. @param query the query of the list; values that are '' or undefined are left out */
export function ExportMenu({
  path,
  query,
  formats = FORMATS,
}: {
  path: string;
  query: Readonly<Record<string, string | number | boolean | null | undefined>>;
  formats?: readonly Format[];
}) {
  return (
    <details class="menu export-menu">
      <summary class="button plain small">Export</summary>
      <ul>
        {formats.map((format) => (
          <li key={format}>
            <a href={addressOf(path, { ...query, format })} download>
              {WORDS[format]}
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}

function addressOf(path: string, query: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== '',
  );
  return `${path}?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}
