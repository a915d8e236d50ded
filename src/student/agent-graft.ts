/**
 * Makes one student from two versions: one agent comes from a kept version, all other agents come from the other
 * student. Pure; command line.
 */

import type { StudentDirectory } from './directory.ts';
import type { StudentManifestDraft } from './model/manifest.ts';
import type { StudentAgent, StudentModel } from './model/student-model.ts';

/** A student that is ready for publication. */
interface GraftedStudent {
  draft: StudentManifestDraft;
  model: StudentModel;
}

/**
 * Replaces one agent of a student by the same agent of a kept version.
 * @param student provides the other agents, and the figures of the student as a whole. Only the largest threshold and
 *   the earliest end of validity may come from `from`
 * @param from the version that provides the agent
 * @param agent the agent's name in the manifests
 * @returns null when `from` does not have the agent
 */
export function graftAgent(
  student: StudentDirectory,
  from: StudentDirectory,
  agent: string,
): GraftedStudent | null {
  const taken = limitGroups(from).filter((group) => nameOf(group) === agent);
  if (taken.length === 0) return null;
  const { format: _format, version: _version, files: _files, ...draft } = student.manifest;
  const source = from.manifest;
  const entry = source.coverage.agents?.filter((listed) => listed.agent === agent) ?? [];
  return {
    model: {
      ...student.model,
      groups: [...limitGroups(student).filter((group) => nameOf(group) !== agent), ...taken],
    },
    draft: {
      ...draft,
      ...earliest(draft.valid_until, source.valid_until),
      coverage: {
        ...draft.coverage,
        threshold: Math.max(draft.coverage.threshold, source.coverage.threshold),
        agents: [...(draft.coverage.agents?.filter((listed) => listed.agent !== agent) ?? []), ...entry],
      },
      golden: {
        ...draft.golden,
        // No round produces the same fingerprint by itself.
        fingerprint: `${draft.golden.fingerprint.slice(0, 50)}+v${source.version}`,
      },
    },
  };
}

/** The agent's groups. The limit of each is at most the threshold from the manifest of its version. */
function limitGroups({ manifest, model }: StudentDirectory): StudentModel['groups'] {
  const { threshold } = manifest.coverage;
  return model.groups.map((group) => {
    const { limit = 1 } = group as unknown as StudentAgent;
    return { ...group, limit: Math.min(limit, threshold) };
  });
}

function nameOf(group: StudentModel['groups'][number]): string {
  return (group as unknown as StudentAgent).name;
}

function earliest(a: string | undefined, b: string | undefined): { valid_until?: string } {
  const known = [a, b].filter((time) => time !== undefined).sort();
  return known[0] === undefined ? {} : { valid_until: known[0] };
}
