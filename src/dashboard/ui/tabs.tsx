/** Tabs, which can be changed by click or with arrow keys. Browser. */
import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';

export function Tabs({
  label,
  tabs,
}: {
  label: string;
  tabs: readonly { name: string; content: () => ComponentChildren }[];
}) {
  const [at, setAt] = useState(0);
  const id = useId();
  const move = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    const next = (at + step + tabs.length) % tabs.length;
    setAt(next);
    (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role=tab]')[next]?.focus();
  };
  return (
    <div class="tabs">
      <div role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(({ name }, index) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${index}`}
            aria-selected={index === at}
            aria-controls={`${id}-panel`}
            tabIndex={index === at ? 0 : -1}
            onClick={() => setAt(index)}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${at}`}>
        {tabs[at]?.content()}
      </div>
    </div>
  );
}
