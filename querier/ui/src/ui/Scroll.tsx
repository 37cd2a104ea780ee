/* What may be wider than its place scrolls in it; then it takes the focus, so that keys scroll it, too. */

import { type ReactNode, useEffect, useRef, useState } from "react";

export function Scroll({ label, className = "", children }: { label: string; className?: string; children: ReactNode }) {
  const ref = useRef<HTMLDivElement>(null);
  const [wide, setWide] = useState(false);

  useEffect(() => {
    const box = ref.current!;
    const watch = new ResizeObserver(() => setWide(box.scrollWidth > box.clientWidth));
    watch.observe(box);
    for (const child of box.children) watch.observe(child);
    return () => watch.disconnect();
  }, []);
  return (
    <div ref={ref} className={`scroll-x ${className}`.trimEnd()} {...(wide ? { tabIndex: 0, role: "group", "aria-label": label } : {})}>
      {children}
    </div>
  );
}
