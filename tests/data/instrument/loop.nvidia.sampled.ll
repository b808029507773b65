; ModuleID = 'kernel'
target datalayout = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-v16:16-v32:32-n16:32:64"

; Function Attrs: nounwind
define ptx_kernel void @loop(ptr addrspace(1) %0, i32 %1, ptr addrspace(1) nofree %2) local_unnamed_addr #0 {
  %proton.e.ns = call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l"()
  %proton.e.clock = call i64 asm sideeffect "mov.u64 $0, %clock64;", "=l"()
  %proton.e.tid = call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()
  %proton.e.cx = call i32 asm sideeffect "mov.u32 $0, %ctaid.x;", "=r"()
  %proton.e.cy = call i32 asm sideeffect "mov.u32 $0, %ctaid.y;", "=r"()
  %proton.e.cz = call i32 asm sideeffect "mov.u32 $0, %ctaid.z;", "=r"()
  %proton.e.nx = call i32 asm sideeffect "mov.u32 $0, %nctaid.x;", "=r"()
  %proton.e.ny = call i32 asm sideeffect "mov.u32 $0, %nctaid.y;", "=r"()
  %proton.e.lane = call i32 asm sideeffect "mov.u32 $0, %laneid;", "=r"()
  %proton.e.warp = lshr i32 %proton.e.tid, 5
  %proton.e.r0 = mul i32 %proton.e.cz, %proton.e.ny
  %proton.e.r1 = add i32 %proton.e.r0, %proton.e.cy
  %proton.e.r2 = mul i32 %proton.e.r1, %proton.e.nx
  %proton.e.cta = add i32 %proton.e.r2, %proton.e.cx
  %proton.e.bit = shl i32 1, %proton.e.warp
  %proton.e.below = sub i32 %proton.e.bit, 1
  %proton.e.before = and i32 %proton.e.below, 12
  %proton.e.unit = call i32 asm "popc.b32 $0, $1;", "=r,r"(i32 %proton.e.before)
  %proton.e.mine = and i32 %proton.e.bit, 12
  %proton.e.on0 = icmp ne i32 %proton.e.mine, 0
  %proton.e.slot = udiv i32 %proton.e.cta, 7
  %proton.e.left = urem i32 %proton.e.cta, 7
  %proton.e.nth = icmp eq i32 %proton.e.left, 0
  %proton.e.on1 = and i1 %proton.e.on0, %proton.e.nth
  %proton.e.base = ptrtoint ptr addrspace(1) %2 to i64
  %proton.e.there = icmp ne i64 %proton.e.base, 0
  %proton.e.on = and i1 %proton.e.on1, %proton.e.there
  %proton.e.at = call i64 asm "mad.wide.u32 $0, $1, 8448, $2;", "=l,r,l"(i32 %proton.e.slot, i64 %proton.e.base)
  %proton.e.lead = icmp eq i32 %proton.e.lane, 0
  %proton.on = and i1 %proton.e.on, %proton.e.lead
  %proton.e.header = call i64 asm "mad.wide.u32 $0, $1, 64, $2;", "=l,r,l"(i32 %proton.e.unit, i64 %proton.e.at)
  %proton.e.ring = call i64 asm "mad.wide.u32 $0, $1, 4112, $2;", "=l,r,l"(i32 %proton.e.unit, i64 %proton.e.at)
  call void asm sideeffect "@$3 st.global.v2.b64 [$0+16], {$1, $2};", "l,l,l,b,~{memory}"(i64 %proton.e.header, i64 %proton.e.ns, i64 %proton.e.clock, i1 %proton.on)
  %4 = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  call void asm sideeffect "@$3 st.global.v2.b32 [$0+128], {$1, $2};", "l,r,r,b"(i64 %proton.e.ring, i32 %4, i32 16777216, i1 %proton.on)
  %5 = icmp sgt i32 %1, 0
  br i1 %5, label %.lr.ph, label %._crit_edge

.lr.ph:                                           ; preds = %3, %.lr.ph
  %proton.i.1 = phi i32 [ 8, %3 ], [ %proton.n.1, %.lr.ph ]
  %6 = phi i32 [ %12, %.lr.ph ], [ 0, %3 ]
  %7 = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  %8 = load volatile i32, ptr addrspace(1) %0, align 4
  %9 = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  %proton.m.1 = and i32 %proton.i.1, 4095
  %proton.z.1 = zext i32 %proton.m.1 to i64
  %proton.a.1 = add i64 %proton.e.ring, %proton.z.1
  %proton.n.1 = add i32 %proton.i.1, 16
  %proton.d.2 = sub i32 %9, %7
  %proton.l.2 = icmp ult i32 %proton.d.2, 16777215
  %proton.c.2 = select i1 %proton.l.2, i32 %proton.d.2, i32 16777215
  %proton.w.2 = or disjoint i32 %proton.c.2, 33554432
  call void asm sideeffect "@$3 st.global.v2.b32 [$0+128], {$1, $2};", "l,r,r,b"(i64 %proton.a.1, i32 %7, i32 %proton.w.2, i1 %proton.on)
  %10 = add i32 %9, 0
  call void asm sideeffect "@$3 st.global.v2.b32 [$0+136], {$1, $2};", "l,r,r,b"(i64 %proton.a.1, i32 %9, i32 50331648, i1 %proton.on)
  %11 = add i32 %6, %8
  %12 = add nuw nsw i32 %11, 1
  %13 = icmp slt i32 %12, %1
  br i1 %13, label %.lr.ph, label %._crit_edge, !llvm.loop !0

._crit_edge:                                      ; preds = %.lr.ph, %3
  %proton.i.2 = phi i32 [ 8, %3 ], [ %proton.n.1, %.lr.ph ]
  %14 = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  %proton.m.2 = and i32 %proton.i.2, 4095
  %proton.z.2 = zext i32 %proton.m.2 to i64
  %proton.a.2 = add i64 %proton.e.ring, %proton.z.2
  %proton.n.2 = add i32 %proton.i.2, 8
  call void asm sideeffect "@$3 st.global.v2.b32 [$0+128], {$1, $2};", "l,r,r,b"(i64 %proton.a.2, i32 %14, i32 67108864, i1 %proton.on)
  br label %proton.fin

proton.fin:
  %proton.f.ns = call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l"()
  %proton.f.clock = call i64 asm sideeffect "mov.u64 $0, %clock64;", "=l"()
  %proton.f.tid = call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()
  %proton.f.cx = call i32 asm sideeffect "mov.u32 $0, %ctaid.x;", "=r"()
  %proton.f.cy = call i32 asm sideeffect "mov.u32 $0, %ctaid.y;", "=r"()
  %proton.f.cz = call i32 asm sideeffect "mov.u32 $0, %ctaid.z;", "=r"()
  %proton.f.nx = call i32 asm sideeffect "mov.u32 $0, %nctaid.x;", "=r"()
  %proton.f.ny = call i32 asm sideeffect "mov.u32 $0, %nctaid.y;", "=r"()
  %proton.f.lane = call i32 asm sideeffect "mov.u32 $0, %laneid;", "=r"()
  %proton.f.warp = lshr i32 %proton.f.tid, 5
  %proton.f.r0 = mul i32 %proton.f.cz, %proton.f.ny
  %proton.f.r1 = add i32 %proton.f.r0, %proton.f.cy
  %proton.f.r2 = mul i32 %proton.f.r1, %proton.f.nx
  %proton.f.cta = add i32 %proton.f.r2, %proton.f.cx
  %proton.f.bit = shl i32 1, %proton.f.warp
  %proton.f.below = sub i32 %proton.f.bit, 1
  %proton.f.before = and i32 %proton.f.below, 12
  %proton.f.unit = call i32 asm "popc.b32 $0, $1;", "=r,r"(i32 %proton.f.before)
  %proton.f.mine = and i32 %proton.f.bit, 12
  %proton.f.on0 = icmp ne i32 %proton.f.mine, 0
  %proton.f.slot = udiv i32 %proton.f.cta, 7
  %proton.f.left = urem i32 %proton.f.cta, 7
  %proton.f.nth = icmp eq i32 %proton.f.left, 0
  %proton.f.on1 = and i1 %proton.f.on0, %proton.f.nth
  %proton.f.base = ptrtoint ptr addrspace(1) %2 to i64
  %proton.f.there = icmp ne i64 %proton.f.base, 0
  %proton.f.on = and i1 %proton.f.on1, %proton.f.there
  %proton.f.at = call i64 asm "mad.wide.u32 $0, $1, 8448, $2;", "=l,r,l"(i32 %proton.f.slot, i64 %proton.f.base)
  br i1 %proton.f.on, label %proton.out, label %proton.done

proton.out:
  %proton.f.lead = icmp eq i32 %proton.f.lane, 0
  %proton.f.header = call i64 asm "mad.wide.u32 $0, $1, 64, $2;", "=l,r,l"(i32 %proton.f.unit, i64 %proton.f.at)
  call void asm sideeffect "@$3 st.global.v2.b64 [$0+32], {$1, $2};", "l,l,l,b,~{memory}"(i64 %proton.f.header, i64 %proton.f.ns, i64 %proton.f.clock, i1 %proton.f.lead)
  %proton.f.sm = call i32 asm "mov.u32 $0, %smid;", "=r"()
  %proton.f.count = lshr i32 %proton.n.2, 3
  %proton.f.clock32 = trunc i64 %proton.f.clock to i32
  %proton.f.last = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  %proton.f.spent = sub i32 %proton.f.last, %proton.f.clock32
  call void asm sideeffect "@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,b,~{memory}"(i64 %proton.f.header, i32 827282000, i32 %proton.f.sm, i32 %proton.f.count, i32 %proton.f.spent, i1 %proton.f.lead)
  br label %proton.done

proton.done:
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { nounwind }

!0 = distinct !{!0}
