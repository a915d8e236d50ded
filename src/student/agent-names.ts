/**
 * Names that operators gave to agent variants (`names.json` beside the manifest). A variant without a name is
 * shown with the first words of its prompt, which the manifest contains. Any thread.
 */

import { join } from 'node:path';
import { z } from 'zod';
import { AGENT_NAME_CHARACTERS, cleanAgentName } from '../domain/agent-name.ts';
import { STUDENT_BOUNDS } from './model/manifest.ts';
import { readWholeJson, writeWhole } from './whole-file.ts';

export const NAMES_NAME = 'names.json';

/** Maximum number of named variants. A further name removes the oldest one. */
const NAMES_MAX = 500;

const FORMAT = 'svc_student_names_v1';

const schema = z.object({
  format: z.literal(FORMAT),
  names: z
    .array(z.object({ agent: z.string().max(200), name: z.string().min(1).max(AGENT_NAME_CHARACTERS) }))
    .max(NAMES_MAX),
});

/** Maps each variant to its name. */
export type AgentNames = ReadonlyMap<string, string>;

/**
 * Reads the names.
 * @throws Error with a one-line message for a file that is damaged or cannot be read
 */
export async function readAgentNames(directory: string): Promise<AgentNames> {
  const path = join(directory, NAMES_NAME);
  const value = await readWholeJson(path, STUDENT_BOUNDS.manifest_bytes);
  if (value === null) return new Map();
  const parsed = schema.safeParse(value);
  if (!parsed.success)
    throw new Error(`${path}: damaged, or of another version; remove the file to remove all names`);
  return new Map(parsed.data.names.map(({ agent, name }) => [agent, name]));
}

/**
 * Names a variant.
 * @param name null: remove the name. A text must not be empty after `cleanAgentName`
 * @throws Error with a one-line message for a damaged file, or the system's error
 */
export async function nameAgent(directory: string, agent: string, name: string | null): Promise<void> {
  const names = new Map(await readAgentNames(directory));
  names.delete(agent);
  if (name !== null) names.set(agent, cleanAgentName(name));
  const kept = [...names].slice(-NAMES_MAX).map(([agent, name]) => ({ agent, name }));
  await writeWhole(
    join(directory, NAMES_NAME),
    `${JSON.stringify({ format: FORMAT, names: kept }, null, 2)}\n`,
  );
}
