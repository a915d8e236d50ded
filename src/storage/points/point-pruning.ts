/**
 * Removes old points from a place, and objects to which no point refers. Command line.
 * The newest point always stays. Points older than the operator chose are removed. Of the others, these stay: all of
 * the last hour, one for each minute of the last day, and one for each hour before that. A layer or blob is removed
 * when no point refers to it and it is at least an hour old, because a younger one may belong to a point that is not
 * written yet. If an attachment was deleted from DATA_DIR, a `removals/` object records when. The attachment is removed
 * when no point from before that time is left, and the last point does not have the attachment.
 */
import { z } from 'zod';
import type { ObjectStore } from '../bucket/object-store.ts';
import type { SealedObjects } from '../bucket/sealed-objects.ts';
import {
  isAttachmentName,
  type ListedPoint,
  listPoints,
  parseObject,
  pointName,
  readPoint,
} from './point.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Maximum number of objects to remove in one call. */
const BATCH = 500;

const removalSchema = z.object({ attachments: z.array(z.string().refine(isAttachmentName)) });

/**
 * Chooses the points to remove.
 * @param points the oldest first
 * @param keepMs how long points are kept
 */
export function choosePruned(points: readonly ListedPoint[], nowMs: number, keepMs: number): ListedPoint[] {
  const kept = new Set<string>();
  return points.filter(({ at_ms }, at) => {
    if (at === points.length - 1) return false;
    const ageMs = nowMs - at_ms;
    if (ageMs > keepMs) return true;
    if (ageMs <= HOUR_MS) return false;
    const span = ageMs <= DAY_MS ? MINUTE_MS : HOUR_MS;
    // The first point of each span stays.
    const place = `${span} ${Math.floor(at_ms / span)}`;
    if (kept.has(place)) return true;
    kept.add(place);
    return false;
  });
}

/** Records attachments that are in no point after this time. @throws StoreError */
export async function writeRemoval(
  store: ObjectStore,
  objects: SealedObjects,
  atMs: number,
  lineage: string,
  gone: readonly string[],
): Promise<void> {
  if (gone.length === 0) return;
  const name = pointName(atMs, lineage).replace('points/', 'removals/');
  await store.put(name, objects.seal(name, Buffer.from(JSON.stringify({ attachments: gone }))));
}

export class PointPruning {
  readonly #store: ObjectStore;
  readonly #objects: SealedObjects;
  readonly #keepMs: number;
  /** The layers of each point that is kept. */
  #layers = new Map<string, readonly string[]>();

  constructor(store: ObjectStore, objects: SealedObjects, keepMs: number) {
    this.#store = store;
    this.#objects = objects;
    this.#keepMs = keepMs;
  }

  /**
   * Removes points, layers, blobs and attachments that are due.
   * @param isListed whether the last point has the attachment
   * @returns the attachments that were removed
   * @throws StoreError
   */
  async run(nowMs: number, isListed: (attachment: string) => boolean): Promise<string[]> {
    const points = await listPoints(this.#store);
    const pruned = new Set(choosePruned(points, nowMs, this.#keepMs).map(({ name }) => name));
    await this.#remove([...pruned]);
    const kept = points.filter(({ name }) => !pruned.has(name));
    await this.#readLayers(kept);
    const used = new Set([...this.#layers.values()].flat());
    const unused: string[] = [];
    for (const prefix of ['layers/', 'blobs/'])
      for await (const { name, written_ms } of this.#store.list(prefix)) {
        const isYoung = nowMs - written_ms < HOUR_MS;
        if (!isYoung && !used.has(name.slice(0, name.lastIndexOf('/')))) unused.push(name);
      }
    await this.#remove(unused);
    return kept.length === 0 ? [] : this.#removeAttachments(kept[0]!, isListed);
  }

  async #readLayers(points: readonly ListedPoint[]): Promise<void> {
    const layers = new Map<string, readonly string[]>();
    for (const { name } of points) {
      const known = this.#layers.get(name);
      const point = known === undefined ? await readPoint(this.#store, this.#objects, name) : null;
      const named = point?.files.flatMap((file) => file.layers.map((layer) => layer.name)) ?? [];
      layers.set(name, known ?? named);
    }
    this.#layers = layers;
  }

  /**
   * Removes attachments that the objects in `removals/` name and that no kept point has.
   * @param oldest the oldest point that is kept
   * @returns the attachments that were removed
   */
  async #removeAttachments(
    oldest: ListedPoint,
    isListed: (attachment: string) => boolean,
  ): Promise<string[]> {
    const due: string[] = [];
    const gone = new Set<string>();
    const noted: string[] = [];
    for await (const { name } of this.#store.list('removals/')) noted.push(name);
    for (const name of noted.sort()) {
      const bytes = await this.#store.get(name);
      if (bytes === null) continue;
      const plain = this.#objects.open(name, bytes);
      const { attachments } = parseObject(this.#store, name, plain, removalSchema);
      if (name.replace('removals/', 'points/') <= oldest.name) {
        due.push(name);
        for (const attachment of attachments) gone.add(attachment);
      } else {
        // An attachment may have been added again after an earlier removal, and points before this removal have it.
        for (const attachment of attachments) gone.delete(attachment);
      }
    }
    const removed = [...gone].filter((attachment) => !isListed(attachment));
    await this.#remove(removed.map((attachment) => `attachments/${attachment}`));
    await this.#remove(due);
    return removed;
  }

  async #remove(names: readonly string[]): Promise<void> {
    for (let at = 0; at < names.length; at += BATCH) await this.#store.remove(names.slice(at, at + BATCH));
  }
}
