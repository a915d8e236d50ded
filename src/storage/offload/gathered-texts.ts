/** The full-text index of gathered captures: the segments of each gateway, with local ids. Capture reader. */
import { listSegments } from '../text-index/segment-files.ts';
import type { PlacedSegment, TextPlaces } from '../text-index/text-search.ts';
import type { GatheredFiles } from './gathered-files.ts';
import { gatheredDb } from './gathered-registry.ts';

export class GatheredTexts implements TextPlaces {
  readonly #files: GatheredFiles;
  readonly #folder: string;

  /** @param folder where captures are gathered */
  constructor(files: GatheredFiles, folder: string) {
    this.#files = files;
    this.#folder = folder;
  }

  list(): PlacedSegment[] {
    const segments = new Map<string, ReturnType<typeof listSegments>['segments']>();
    const placed: PlacedSegment[] = [];
    for (const { gateway, first_id, last_id, shift } of this.#files.parts) {
      const all = segments.get(gateway) ?? listSegments(gatheredDb(this.#folder, gateway)).segments;
      segments.set(gateway, all);
      // A segment has exchanges of one file.
      for (const { path, ...ids } of all)
        if (ids.first_id + shift >= first_id && ids.last_id + shift <= last_id)
          placed.push({ path, first_id: ids.first_id + shift, last_id: ids.last_id + shift, shift });
    }
    return placed;
  }

  runsFrom(id: number, count: number): (string | null)[] {
    const runs = new Array<string | null>(count).fill(null);
    for (const summary of this.#files.summaries({ from_id: id })) {
      if (summary.id >= id + count) break;
      runs[summary.id - id] = summary.run_id;
      // Stop here, because the generator would open the next file to yield one more summary.
      if (summary.id === id + count - 1) break;
    }
    return runs;
  }
}
