/**
 * Stores a changing file as layers. The first layer has all pages. Each later layer has the pages that changed since
 * the previous layer. From time to time, a layer has all changes since the first layer, so that a restore reads few
 * layers. Command line.
 */
import { LayerWriter } from './page-layer.ts';
import type { PageSource } from './page-source.ts';
import { PageTable } from './page-table.ts';
import type { LayerRef, PointFile } from './point.ts';

/**
 * After this many layers of changes, the next layer contains all changes since the first layer. Instead, a new first
 * layer with all pages is written if the pages of the first layer are not known, or if the last layer with all changes
 * had at least half as many pages as the first layer.
 */
const CHANGES_MAX = 60;

/** A file at the last point: its layers, and the digests of its pages. */
export interface LayeredFile {
  readonly entry: PointFile;
  readonly stamp: string | null;
  readonly table: PageTable;
  /** The pages of the first layer; null if no later layer is compared with it. */
  readonly base: PageTable | null;
  readonly base_layers: readonly LayerRef[];
  /** Number of pages in the first layer, and in the last layer that has all changes since the first layer. */
  readonly base_pages: number;
  readonly change_pages: number;
  /** Number of layers after those two. */
  readonly changes: number;
}

interface LayerTarget {
  /** A name for the layer. */
  layer: string;
  /** Keeps a piece until the point is published. */
  put(piece: string, bytes: Uint8Array): Promise<void>;
}

/**
 * Reads a file and writes the changes since the last point as a layer. Writes nothing if the file's stamp has not
 * changed. @param known the file as of the last point; null: the file is new @param keepsBase whether a later layer may
 * contain all changes since the first layer, which takes 16 bytes of memory for each page
 */
export async function addLayer(
  known: LayeredFile | null,
  source: PageSource,
  file: Pick<PointFile, 'name' | 'kind'>,
  { layer, put }: LayerTarget,
  keepsBase: boolean,
): Promise<LayeredFile> {
  if (known !== null && known.stamp !== null && known.stamp === source.stamp) return known;
  const usable = known?.table.page_bytes === source.page_bytes ? known : null;
  const since = chooseReference(usable);
  const table = new PageTable(source.page_bytes, Math.ceil(source.bytes / source.page_bytes));
  let pieces = 0;
  let pages = 0;
  const writer = new LayerWriter((piece) => put(`${layer}/${pieces++}`, piece));
  await source.read(async (page, content) => {
    table.note(page, content);
    if (table.isZeroPage(page) || (since !== null && table.hasSame(page, since))) return;
    pages++;
    await writer.add(page, fillPage(content, source.page_bytes));
  });
  for (let page = 0; page < (since?.pages ?? 0); page++) {
    if (!table.isZeroPage(page) || since!.isZeroPage(page)) continue;
    pages++;
    await writer.add(page, null);
  }
  await writer.finish();
  const added: LayerRef[] = pieces === 0 ? [] : [{ name: layer, pieces }];
  const entry = (layers: LayerRef[]): PointFile => ({
    ...file,
    bytes: source.bytes,
    page_bytes: source.page_bytes,
    digest: table.digest(source.bytes),
    layers,
  });
  const { stamp } = source;
  if (usable === null || since === null) {
    const base = keepsBase ? table : null;
    const counts = { base_pages: pages, change_pages: 0, changes: 0 };
    return { entry: entry(added), stamp, table, base, base_layers: added, ...counts };
  }
  if (since === usable.base && usable.changes >= CHANGES_MAX) {
    const layers = [...usable.base_layers, ...added];
    return { ...usable, entry: entry(layers), stamp, table, change_pages: pages, changes: 0 };
  }
  const changes = usable.changes + added.length;
  return { ...usable, entry: entry([...usable.entry.layers, ...added]), stamp, table, changes };
}

/** Returns the pages with which the file is compared for the next layer; null: the layer contains all pages. */
function chooseReference(known: LayeredFile | null): PageTable | null {
  if (known === null) return null;
  if (known.changes < CHANGES_MAX) return known.table;
  return 2 * known.change_pages < known.base_pages ? known.base : null;
}

function fillPage(content: Buffer, pageBytes: number): Buffer {
  if (content.length === pageBytes) return content;
  const whole = Buffer.alloc(pageBytes);
  content.copy(whole);
  return whole;
}
