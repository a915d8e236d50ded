/**
 * The student that explains steps. It is loaded on demand, and kept until another version is needed. Capture reader.
 */

import { chooseIndex } from '../search/open-index.ts';
import { readAgentNames } from '../student/agent-names.ts';
import {
  readStudentDirectory,
  readStudentManifest,
  readStudentVersion,
  StudentDirectoryError,
} from '../student/directory.ts';
import { type ExplainingStudent, openExplaining } from '../teaching/step-explanation.ts';

interface FoundStudent {
  /** null: there is no student. */
  student: ExplainingStudent | null;
  /** Why there is no student; '' if there is one, or if none is configured. */
  problem: string;
}

export class ExplainingStudents {
  readonly #directory: string | null;
  #kept: ExplainingStudent | null = null;

  /** @param directory null: no student is configured */
  constructor(directory: string | null) {
    this.#directory = directory;
  }

  /**
   * Returns the student of a version, and loads it unless it is in memory.
   * @param version the version to explain with; null, or a version that cannot be loaded: the serving version
   */
  async find(version: number | null): Promise<FoundStudent> {
    if (this.#directory === null) return { student: null, problem: '' };
    try {
      return { student: await this.#open(this.#directory, version), problem: '' };
    } catch (error) {
      if (!(error instanceof StudentDirectoryError)) throw error;
      return { student: null, problem: error.code === 'missing' ? '' : error.message };
    }
  }

  /** Reads the operator's name for an agent variant; null without a name, or if the names cannot be read. */
  async nameOf(agent: string): Promise<string | null> {
    if (this.#directory === null) return null;
    const names = await readAgentNames(this.#directory).catch(() => null);
    return names?.get(agent) ?? null;
  }

  async #open(directory: string, version: number | null): Promise<ExplainingStudent> {
    if (version !== null && this.#kept?.manifest.version === version) return this.#kept;
    const kept = version === null ? null : await readVersion(directory, version);
    if (kept === null) {
      const { version: serving } = await readStudentManifest(directory);
      if (this.#kept?.manifest.version === serving) return this.#kept;
    }
    // Only one student is in memory at a time: the earlier student is released first.
    this.#kept = null;
    this.#kept = openExplaining(
      kept ?? (await readStudentDirectory(directory)),
      chooseIndex(() => {}),
    );
    return this.#kept;
  }
}

/** Reads a version. @returns null for a version that no longer exists or is damaged */
async function readVersion(directory: string, version: number) {
  try {
    return await readStudentVersion(directory, version);
  } catch (error) {
    if (error instanceof StudentDirectoryError) return null;
    throw error;
  }
}
