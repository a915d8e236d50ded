/** The student that explains steps, read in when somebody asks and kept until another one is asked for. Capture reader. */
import { type ExplainingStudent, openExplaining } from '../analysis/step-explanation.ts';
import { chooseIndex } from '../search/open-index.ts';
import {
  readStudentDirectory,
  readStudentManifest,
  readStudentVersion,
  StudentDirectoryError,
} from '../student/directory.ts';

export interface FoundStudent {
  /** null: there is none to ask. */
  student: ExplainingStudent | null;
  /** Why; '' where there is one, or none is configured. */
  problem: string;
}

export class ExplainingStudents {
  readonly #directory: string | null;
  #kept: ExplainingStudent | null = null;

  /** @param directory null: no student is configured */
  constructor(directory: string | null) {
    this.#directory = directory;
  }

  /** @param version that is asked for; null, or no longer kept: the one that serves */
  async find(version: number | null): Promise<FoundStudent> {
    if (this.#directory === null) return { student: null, problem: '' };
    try {
      return { student: await this.#open(this.#directory, version), problem: '' };
    } catch (error) {
      if (!(error instanceof StudentDirectoryError)) throw error;
      return { student: null, problem: error.code === 'missing' ? '' : error.message };
    }
  }

  async #open(directory: string, version: number | null): Promise<ExplainingStudent> {
    if (version !== null && this.#kept?.manifest.version === version) return this.#kept;
    const kept = version === null ? null : await readVersion(directory, version);
    if (kept === null) {
      const { version: serving } = await readStudentManifest(directory);
      if (this.#kept?.manifest.version === serving) return this.#kept;
    }
    // One at a time: the one before goes first.
    this.#kept = null;
    this.#kept = openExplaining(
      kept ?? (await readStudentDirectory(directory)),
      chooseIndex(() => {}),
    );
    return this.#kept;
  }
}

/** @returns null where it is not kept any more */
async function readVersion(directory: string, version: number) {
  try {
    return await readStudentVersion(directory, version);
  } catch (error) {
    if (error instanceof StudentDirectoryError) return null;
    throw error;
  }
}
