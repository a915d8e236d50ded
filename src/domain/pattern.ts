/**
 * Patterns: lessons of runs for later runs in the same situation (contract document 2, Pattern). Owners, preferences
 * and content. Pure; any thread.
 */
import { MODEL_CHARACTERS } from '../limits.ts';
import { cleanText } from './patterns/text.ts';

/**
 * Maximum lengths of the texts of a pattern that the service makes, in UTF-16 units; and maximum number of patterns of
 * one trace (contract document 4, "v1").
 */
export const PATTERN_BOUNDS = { situation: 800, dead_ends: 1_200, unlock: 1_200, per_trace: 3 } as const;
/** Minimum cosine of two situations that belong to one pattern if their solutions are literally equal. */
export const SAME_LESSON_COSINE = 0.6;
/** Minimum cosine of two situations that count as the same (contract document 4, "v1"). */
export const SAME_SITUATION_COSINE = 0.9;

/** Maximum number of patterns of one scope: a project, an organization's commons, or the universal ones. */
export const PATTERNS_PER_SCOPE = 250_000;
/** Maximum lengths of the texts of an imported pattern, and of a failure category, in code points. */
export const PATTERN_IMPORT_CHARACTERS = { situation: 4_000, dead_ends: 8_000, unlock: 8_000 } as const;
export const FAILURE_TYPE_CHARACTERS = 64;

/** `e1`: one project's; `e2`: an organization's commons; `e3`: everybody's. */
export const TIERS = ['e1', 'e2', 'e3'] as const;

export type Tier = (typeof TIERS)[number];

/** The content of a pattern; `fields` in the API. */
export interface PatternFields {
  /** The task and its state. This text is searched. */
  situation: string;
  /** What was tried and failed. */
  dead_ends: string;
  /** What worked. */
  unlock: string;
}

/** A pattern as passed to the store. */
export interface NewPattern extends PatternFields {
  /** The model that the pattern was learned from; '' if unknown. */
  model: string;
  /** A monitor's name or any other category; '' without one. */
  failure_type: string;
}

/** A pattern as it is stored. */
export interface Pattern extends NewPattern {
  /** `pat_` and a ULID. */
  pattern_id: string;
  tier: Tier;
  /** '' where the tier has none. */
  org_id: string;
  project_id: string;
  /** How often the pattern was seen: once, and once more for each near-duplicate merged into it. */
  support: number;
  /** The latest traces that the pattern, or a near-duplicate merged into it, came from. */
  sources: string[];
  /** RFC 3339 UTC with milliseconds. */
  created_at: string;
  updated_at: string;
}

/** Who can see a pattern. Tier, organization and project together make a scope, which is searched as a unit. */
export interface PatternScope {
  tier: Tier;
  org_id: string;
  project_id: string;
}

export const UNIVERSAL_SCOPE: PatternScope = { tier: 'e3', org_id: '', project_id: '' };

/** Makes the scope of an organization's pattern: e1 in a project, otherwise (null) the organization's commons. */
export function ownScope(orgId: string, projectId: string | null): PatternScope {
  return projectId === null
    ? { tier: 'e2', org_id: orgId, project_id: '' }
    : { tier: 'e1', org_id: orgId, project_id: projectId };
}

/** Removes secrets from the pattern and bounds it. Every pattern passes through here before it is stored. */
export function cleanPattern(pattern: NewPattern): NewPattern {
  const { situation, dead_ends, unlock } = PATTERN_IMPORT_CHARACTERS;
  return {
    // Bounds are in code points, each of which takes at most two UTF-16 units.
    situation: cleanText(pattern.situation, 2 * situation).trim(),
    dead_ends: cleanText(pattern.dead_ends, 2 * dead_ends).trim(),
    unlock: cleanText(pattern.unlock, 2 * unlock).trim(),
    model: cleanText(pattern.model, 2 * MODEL_CHARACTERS).trim(),
    failure_type: cleanText(pattern.failure_type, 2 * FAILURE_TYPE_CHARACTERS),
  };
}

/**
 * Added to the cosine of a pattern from the wanted model's family. So it ranks before a pattern that is slightly more
 * similar.
 */
export const SAME_FAMILY_BOOST = 0.05;

/** Provider prefixes of a model's name: `anthropic.claude-…`, `us.amazon.nova-…`. */
const PROVIDER_PREFIX =
  /^(?:(?:us|eu|apac|ap|ca|sa|jp|au|global)(?:-gov)?\.)?(?:anthropic|amazon|meta|mistral|cohere|google|deepseek|ai21|openai|qwen|writer|xai)\./;
/** Parts of a name that say how a model was trained or is served, not which model it is. */
const ATTRIBUTES = new Set([
  'latest',
  'preview',
  'exp',
  'experimental',
  'instruct',
  'it',
  'chat',
  'turbo',
  'thinking',
  'reasoning',
  'beta',
  'free',
  'fp8',
  'awq',
  'gguf',
]);

/**
 * Finds the family of a model, without versions, dates and sizes (`claude-sonnet`, `gpt-4o`, `gemini-flash`, `llama`).
 * @returns '' for a name that does not identify a family
 */
export function modelFamily(model: string): string {
  const name = model
    .slice(0, MODEL_CHARACTERS)
    .trim()
    .toLowerCase()
    .replace(/^.*\//, '')
    .replace(PROVIDER_PREFIX, '')
    .replace(/[:@].*$/, '');
  const gpt = /^(?:chat)?gpt-?(\d+(?:\.\d+)?o?)/.exec(name);
  if (gpt !== null) return `gpt-${gpt[1]}`;
  const reasoner = /^o(\d)(?:-|$)/.exec(name);
  if (reasoner !== null) return `o${reasoner[1]}`;
  const parts = name
    .split(/[-_.\s]+/)
    .filter((part) => /^[a-z]/.test(part) && !/^v?\d/.test(part) && !ATTRIBUTES.has(part));
  const [line = '', ...rest] = parts;
  const first = line.replace(/\d+$/, '');
  const second = rest.find((part) => !/\d/.test(part));
  return second === undefined || first === '' ? first : `${first}-${second}`;
}
