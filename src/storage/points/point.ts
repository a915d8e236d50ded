/**
 * A restore point has the state of all data at one time. It is an object that lists files and their layers. Points are
 * in a *place*, a folder or bucket, under the names below. A place may come from an untrusted source, so names that
 * `backup` never writes are refused. Command line.
 *
 *   about.json                         the DATA_DIR to which the points belong, and their key
 *   points/<time>-<lineage>.json       a point
 *   layers/<lineage>/<number>/<piece>  pages of a file that changes; a lineage is one run of `backup --follow`
 *   blobs/<digest>/<piece>, …/done     a file that does not change; `done` when all its pieces are there
 *   attachments/<sha256>               an attachment of captured exchanges
 *   removals/<time>-<lineage>.json     attachments that later points do not have
 */
import { z } from 'zod';
import { isBackupName } from '../backup-manifest.ts';
import type { ObjectStore } from '../bucket/object-store.ts';
import { StoreError } from '../bucket/object-store.ts';
import type { SealedObjects } from '../bucket/sealed-objects.ts';

export const ABOUT = 'about.json';
export const PLACE_FORMAT = 'understudy_points_v1';

const aboutSchema = z.object({
  format: z.literal(PLACE_FORMAT),
  /** Identifies the DATA_DIR. */
  source: z.string(),
  /** Identifies the data key; null: the objects are not encrypted. */
  key: z.string().nullable(),
});
export type About = z.output<typeof aboutSchema>;

const HEX = /^[0-9a-f]{64}$/;
const LINEAGE = '\\d{8}T\\d{9}Z-[0-9a-f]{8}';
const POINT_NAME = new RegExp(`^points/(\\d{8}T\\d{9}Z)-(${LINEAGE})\\.json$`);
const LAYER = new RegExp(`^(?:layers/${LINEAGE}/\\d{8}|blobs/[0-9a-f]{64})$`);

/** Name of the file of a point that lists its attachments: the digest of each, 32 bytes. */
export const ATTACHMENTS = 'attachments';

/** Maximum length of a file. Larger lengths are refused, because a restore writes files up to that length. */
const FILE_BYTES_MAX = 2 ** 44;

const fileSchema = z
  .object({
    /** As in a backup; `raw/<number>.raw` for a raw file of captures. */
    name: z.string(),
    kind: z.enum(['database', 'redo', 'capture', 'sealed', 'keys', 'secret', 'raw', 'attachments']),
    bytes: z.int().min(0).max(FILE_BYTES_MAX),
    page_bytes: z.int().min(512).max(65_536),
    digest: z.string().regex(HEX),
    /** In order: a page of a later layer replaces the same page of an earlier one. */
    layers: z.array(z.object({ name: z.string().regex(LAYER), pieces: z.int().min(0) })),
  })
  .refine(({ kind, name }) =>
    kind === 'raw' || kind === 'attachments'
      ? (kind === 'raw' ? /^raw\/\d{1,9}\.raw$/ : /^attachments$/).test(name)
      : isBackupName(kind, name),
  );
export type PointFile = z.output<typeof fileSchema>;
export type LayerRef = PointFile['layers'][number];

const pointSchema = z.object({
  format: z.literal(PLACE_FORMAT),
  /** The point contains everything that was acknowledged before this time. */
  from: z.iso.datetime(),
  /**
   * The point contains no data from after this time, except attachments and secrets to which none of its rows refers.
   */
  at: z.iso.datetime(),
  files: z.array(fileSchema).refine((files) => new Set(files.map(({ name }) => name)).size === files.length),
});
export type Point = z.output<typeof pointSchema>;

/** A point by its name. */
export interface ListedPoint {
  name: string;
  at_ms: number;
  lineage: string;
}

/** `2026-03-01T10:00:00.123Z` → `20260301T100000123Z`: sorts like the time. */
export function compactTime(ms: number): string {
  return new Date(ms).toISOString().replace(/[-:.]/g, '');
}

function readCompactTime(text: string): number {
  return Date.parse(text.replace(/^(....)(..)(..T..)(..)(..)(...)Z$/, '$1-$2-$3:$4:$5.$6Z'));
}

export function pointName(atMs: number, lineage: string): string {
  return `points/${compactTime(atMs)}-${lineage}.json`;
}

/** Lists the points of a place, the oldest first. @throws StoreError */
export async function listPoints(store: ObjectStore): Promise<ListedPoint[]> {
  const points: ListedPoint[] = [];
  for await (const { name } of store.list('points/')) {
    const [, at, lineage] = POINT_NAME.exec(name) ?? [];
    if (at !== undefined) points.push({ name, at_ms: readCompactTime(at), lineage: lineage! });
  }
  return points.sort((a, b) => a.at_ms - b.at_ms || (a.name < b.name ? -1 : 1));
}

/**
 * Reads to which DATA_DIR a place belongs. @returns null if the place is not one of restore points. @throws StoreError
 */
export async function readAbout(store: ObjectStore): Promise<About | null> {
  const bytes = await store.get(ABOUT);
  return bytes === null ? null : parseObject(store, ABOUT, bytes, aboutSchema);
}

/** Reads a point. @returns null if the point was removed. @throws StoreError */
export async function readPoint(
  store: ObjectStore,
  objects: SealedObjects,
  name: string,
): Promise<Point | null> {
  const bytes = await store.get(name);
  return bytes === null ? null : parseObject(store, name, objects.open(name, bytes), pointSchema);
}

/** Parses an object's JSON. @throws StoreError if the JSON is invalid or does not match the schema */
export function parseObject<Value>(
  store: ObjectStore,
  name: string,
  bytes: Buffer,
  schema: z.ZodType<Value>,
): Value {
  try {
    return schema.parse(JSON.parse(bytes.toString('utf8')));
  } catch (cause) {
    throw new StoreError(`${name} in ${store.name} is not what this version can read`, { cause });
  }
}

/** Whether the name is that of an attachment. */
export function isAttachmentName(name: string): boolean {
  return HEX.test(name);
}
