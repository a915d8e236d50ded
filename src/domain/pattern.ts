/**
 * Patterns: what a run learned, for the next one in the same situation (document 2, Pattern). Whose
 * they are, which are preferred, what they hold. Pure; any thread.
 */
import { MODEL_CHARACTERS } from '../limits.ts';
import { cleanText } from './patterns/text.ts';

/** Texts of a pattern that the service makes, in UTF-16 units, and patterns of one trace (decision: 3). */
export const PATTERN_BOUNDS = { situation: 800, dead_ends: 1_200, unlock: 1_200, per_trace: 3 } as const;
/** Cosine from which two situations belong to one pattern when what helped is the same, word for word. */
export const SAME_LESSON_COSINE = 0.6;
/** Cosine from which two situations are one (decision: 0.9). */
export const SAME_SITUATION_COSINE = 0.9;

/** Patterns of one scope: a project, an organization's commons, or the universal ones. */
export const PATTERNS_PER_SCOPE = 250_000;
/** Texts of an imported pattern, and a failure category, in code points. */
export const PATTERN_IMPORT_CHARACTERS = { situation: 4_000, dead_ends: 8_000, unlock: 8_000 } as const;
export const FAILURE_TYPE_CHARACTERS = 64;

/** `e1`: one project's; `e2`: an organization's commons; `e3`: everybody's. */
export const TIERS = ['e1', 'e2', 'e3'] as const;

export type Tier = (typeof TIERS)[number];

/** What a pattern says; the wire's `fields`. */
export interface PatternFields {
  /** The task, and where it stood. What is searched. */
  situation: string;
  /** What was tried and failed. */
  dead_ends: string;
  /** What worked. */
  unlock: string;
}

/** A pattern as it is given to the store. */
export interface NewPattern extends PatternFields {
  /** The model that learned it; '' when not known. */
  model: string;
  /** A monitor's name or any other category; '' for none. */
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
  /** How often it was seen: 1, and one more for each near-duplicate that was merged into it. */
  support: number;
  /** The last traces that it came from, or whose near-duplicates were merged into it. */
  sources: string[];
  /** RFC 3339 UTC with milliseconds. */
  created_at: string;
  updated_at: string;
}

/** Who sees a pattern: the same tier, organization and project make one scope, searched as one. */
export interface PatternScope {
  tier: Tier;
  org_id: string;
  project_id: string;
}

export const UNIVERSAL_SCOPE: PatternScope = { tier: 'e3', org_id: '', project_id: '' };

/** Where a pattern of an organization belongs: under a project e1, else the commons. */
export function ownScope(orgId: string, projectId: string | null): PatternScope {
  return projectId === null
    ? { tier: 'e2', org_id: orgId, project_id: '' }
    : { tier: 'e1', org_id: orgId, project_id: projectId };
}

/** The pattern without secrets, bounded. Wherever it comes from, it passes here before it is stored. */
export function cleanPattern(pattern: NewPattern): NewPattern {
  const { situation, dead_ends, unlock } = PATTERN_IMPORT_CHARACTERS;
  return {
    // Bounds are in code points, of which each takes two units at most.
    situation: cleanText(pattern.situation, 2 * situation).trim(),
    dead_ends: cleanText(pattern.dead_ends, 2 * dead_ends).trim(),
    unlock: cleanText(pattern.unlock, 2 * unlock).trim(),
    model: cleanText(pattern.model, 2 * MODEL_CHARACTERS).trim(),
    failure_type: cleanText(pattern.failure_type, 2 * FAILURE_TYPE_CHARACTERS),
  };
}

/** Cosine by which a pattern of the wanted model's family goes before another that is a little more similar. */
export const SAME_FAMILY_BOOST = 0.05;

/** Providers that stand before a model's name: `anthropic.claude-…`, `us.amazon.nova-…`. */
const PROVIDER_PREFIX =
  /^(?:(?:us|eu|apac|ap|ca|sa|jp|au|global)(?:-gov)?\.)?(?:anthropic|amazon|meta|mistral|cohere|google|deepseek|ai21|openai|qwen|writer|xai)\./;
/** Parts of a name that say how a model was trained or served, not which it is. */
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
 * The family of a model: versions, dates and sizes of one line are one family (`claude-sonnet`, `gpt-4o`,
 * `gemini-flash`, `llama`).
 * @returns '' for a name that says nothing
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
